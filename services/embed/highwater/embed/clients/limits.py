"""Reads and changes instances' limits at the controller, for the command line."""

from dataclasses import dataclass, replace
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse, read_image
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_instances import instance_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.errors import HighwaterError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState

TIMEOUT_S: Final = 10.0
UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """Bytes per second; None keeps the current limit, -1 removes it."""

    produce: int | None
    consume: int | None


def change_limits(address: str, instance: str, change: LimitChange) -> InstanceState:
    """Sets an instance's limits and returns all of them. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> InstanceState:
        image = await read_image(endpoints, TIMEOUT_S)
        name = InstanceId(instance)
        present = image.instances.get(name) or InstanceState(instance=name)
        wanted = replace(
            present,
            produce_bytes_per_second=_changed(change.produce, present.produce_bytes_per_second),
            consume_bytes_per_second=_changed(change.consume, present.consume_bytes_per_second),
        )
        response = await ControllerClient(endpoints).set_instance(
            pb.SetInstanceRequest(instance=instance_to_pb(wanted)), timeout_s=TIMEOUT_S
        )
        if response.error.error_code:
            raise HighwaterError(response.error.message)
        return wanted

    return converse(address, work)


def read_limits(address: str) -> list[InstanceState]:
    """All instances that the controller knows, by name. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> list[InstanceState]:
        image = await read_image(endpoints, TIMEOUT_S)
        return [image.instances[name] for name in sorted(image.instances)]

    return converse(address, work)


def _changed(wanted: int | None, present: int | None) -> int | None:
    if wanted is None:
        return present
    return None if wanted == UNLIMITED else wanted
