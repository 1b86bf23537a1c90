"""Makes, changes, deletes and restores instances at a controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse
from highwater.embed.commands.quota import controller_address
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_instances import instance_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.instances import InstanceState

TIMEOUT_S = 20.0
_LATER_MS = 24 * 3600 * 1000

Call = Callable[[ControllerClient, InstanceState], Awaitable[None]]
"""One of the functions below."""


async def create(client: ControllerClient, state: InstanceState) -> None:
    """Makes a new one."""
    request = pb.CreateInstanceRequest(instance=instance_to_pb(state))
    response = await client.create_instance(request, timeout_s=TIMEOUT_S)
    assert response.error.error_code == 0, response.error.message


async def change(client: ControllerClient, state: InstanceState) -> None:
    """Sets all of it."""
    request = pb.SetInstanceRequest(instance=instance_to_pb(state))
    response = await client.set_instance(request, timeout_s=TIMEOUT_S)
    assert response.error.error_code == 0, response.error.message


async def delete(client: ControllerClient, state: InstanceState) -> None:
    """It can still be restored for long."""
    request = pb.DeleteInstanceRequest(instance=state.instance, purge_after_ms=_LATER_MS)
    response = await client.delete_instance(request, timeout_s=TIMEOUT_S)
    assert response.error.error_code == 0, response.error.message


async def restore(client: ControllerClient, state: InstanceState) -> None:
    """Brings a deleted one back."""
    request = pb.RestoreInstanceRequest(instance=state.instance)
    response = await client.restore_instance(request, timeout_s=TIMEOUT_S)
    assert response.error.error_code == 0, response.error.message


def at(data_dir: Path, call: Call, state: InstanceState) -> None:
    """Does that at the controller of the cluster that `highwater up` runs on the directory."""

    async def work(endpoints: ControllerEndpoints) -> None:
        await call(ControllerClient(endpoints), state)

    converse(controller_address(None, data_dir), work)
