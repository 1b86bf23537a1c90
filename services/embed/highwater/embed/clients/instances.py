"""Creates, changes, deletes and reads instances at the controller, for the command line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse, read_image
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_instances import instance_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.cluster import ClusterImage
from highwater.model.errors import HighwaterError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState

TIMEOUT_S: Final = 10.0

TRIES: Final = 5
"""To change an instance that others change at the same time: more than operators who do so."""

Change = Callable[[InstanceState], InstanceState]
"""What an instance shall be, from what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownInstance:
    """An instance, and what it has at this moment."""

    state: InstanceState
    topics: int = 0
    partitions: int = 0
    users: int = 0
    acls: int = 0


def create_instance(address: str, wanted: InstanceState) -> None:
    """Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> None:
        request = pb.CreateInstanceRequest(instance=instance_to_pb(wanted))
        client = ControllerClient(endpoints)
        _check((await client.create_instance(request, timeout_s=TIMEOUT_S)).error)

    converse(address, work)


def change_instance(address: str, name: str, change: Change) -> InstanceState:
    """Changes an instance, also the default one, and returns what it is now. Raises HighwaterError.

    If somebody else changes it meanwhile, `change` is called again with what it is then.
    """

    async def work(endpoints: ControllerEndpoints) -> InstanceState:
        client = ControllerClient(endpoints)
        for tries_left in reversed(range(TRIES)):
            present = _present(await read_image(endpoints, TIMEOUT_S), name)
            wanted = change(present)
            request = pb.SetInstanceRequest(
                instance=instance_to_pb(wanted), previous=instance_to_pb(present)
            )
            error = (await client.set_instance(request, timeout_s=TIMEOUT_S)).error
            if error.error_code != ErrorCode.INVALID_UPDATE_VERSION or not tries_left:
                _check(error)
                break
        return wanted

    return converse(address, work)


def delete_instance(address: str, name: str, *, purge_after_ms: int) -> int:
    """Returns when it is purged, in ms since the epoch. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> int:
        request = pb.DeleteInstanceRequest(instance=name, purge_after_ms=purge_after_ms)
        client = ControllerClient(endpoints)
        response = await client.delete_instance(request, timeout_s=TIMEOUT_S)
        _check(response.error)
        return response.purge_at_ms

    return converse(address, work)


def restore_instance(address: str, name: str) -> None:
    """Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> None:
        request = pb.RestoreInstanceRequest(instance=name)
        client = ControllerClient(endpoints)
        _check((await client.restore_instance(request, timeout_s=TIMEOUT_S)).error)

    converse(address, work)


def read_instances(address: str) -> list[KnownInstance]:
    """All instances by name, after the default one, which is always there. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> list[KnownInstance]:
        image = await read_image(endpoints, TIMEOUT_S)
        names = sorted(image.instances.keys() - {DEFAULT_INSTANCE})
        return [_known(image, _present(image, name)) for name in (DEFAULT_INSTANCE, *names)]

    return converse(address, work)


def read_instance(address: str, name: str) -> KnownInstance:
    """One instance. Raises HighwaterError, also if it is not there."""

    async def work(endpoints: ControllerEndpoints) -> KnownInstance:
        image = await read_image(endpoints, TIMEOUT_S)
        return _known(image, _present(image, name))

    return converse(address, work)


def _known(image: ClusterImage, state: InstanceState) -> KnownInstance:
    topics = [t for t in image.topics.values() if t.instance == state.instance and not t.internal]
    return KnownInstance(
        state=state,
        topics=len(topics),
        partitions=sum(len(topic.partitions) for topic in topics),
        users=len({k.user for k in image.scram_credentials if k.instance == state.instance}),
        acls=sum(1 for acl in image.acls if acl.instance == state.instance),
    )


def _present(image: ClusterImage, name: str) -> InstanceState:
    present = image.instances.get(InstanceId(name))
    if present is None and name == DEFAULT_INSTANCE:
        return InstanceState(instance=DEFAULT_INSTANCE)
    if present is None:
        raise HighwaterError(f"there is no instance '{name}'")
    return present


def _check(error: pb.ApiError) -> None:
    if error.error_code:
        raise HighwaterError(error.message)
