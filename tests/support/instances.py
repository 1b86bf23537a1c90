"""Makes, changes, deletes and restores instances at a running controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse
from highwater.embed.up.data_dir import DataDir
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_instances import instance_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.instances import InstanceState

TIMEOUT_S = 20.0
_FAR_AWAY_MS = 1 << 42

Call = Callable[[ControllerClient, InstanceState], Awaitable[None]]
"""One of the functions below."""


async def change(client: ControllerClient, state: InstanceState) -> None:
    """Sets all of it."""
    response = await client.set_instance(
        pb.SetInstanceRequest(instance=instance_to_pb(state)), timeout_s=TIMEOUT_S
    )
    assert response.error.error_code == 0, response.error.message


create = change
"""An instance that is not there yet is made by setting it."""


async def delete(client: ControllerClient, state: InstanceState) -> None:
    """It can still be restored for long."""
    await change(client, replace(state, purge_at_ms=_FAR_AWAY_MS))


async def restore(client: ControllerClient, state: InstanceState) -> None:
    """Brings a deleted one back."""
    await change(client, state)


def at(data_dir: Path, call: Call, state: InstanceState) -> None:
    """Does that at the controller of the cluster that `highwater up` runs on the directory."""

    async def work(endpoints: ControllerEndpoints) -> None:
        await call(ControllerClient(endpoints), state)

    converse(DataDir(data_dir).read_controller_address(), work)
