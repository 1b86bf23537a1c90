"""Reads and changes instances' limits at the controller, for the command line."""

from dataclasses import dataclass, replace
from typing import Final

from highwater.embed.clients.controller_session import converse, read_image
from highwater.embed.clients.instances import change_instance
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.instances import InstanceState

TIMEOUT_S: Final = 10.0
UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """Bytes per second, and bytes of storage; None keeps the current limit, -1 removes it."""

    produce: int | None = None
    consume: int | None = None
    storage: int | None = None


def change_limits(address: str, instance: str, change: LimitChange) -> InstanceState:
    """Sets an instance's limits and returns what it is now. Raises HighwaterError."""

    def changed(present: InstanceState) -> InstanceState:
        return replace(
            present,
            produce_bytes_per_second=_changed(change.produce, present.produce_bytes_per_second),
            consume_bytes_per_second=_changed(change.consume, present.consume_bytes_per_second),
            storage_bytes=_changed(change.storage, present.storage_bytes),
        )

    return change_instance(address, instance, changed)


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
