"""Puts instances into a running cluster, at its controller."""

from __future__ import annotations

from pathlib import Path

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse
from highwater.embed.up.data_dir import DataDir
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_instances import instance_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.instances import InstanceState

TIMEOUT_S = 20.0


def set_instance(data_dir: Path, state: InstanceState) -> None:
    """Makes the instance, or changes it to that; `data_dir` is that of `highwater up`."""

    async def work(endpoints: ControllerEndpoints) -> None:
        response = await ControllerClient(endpoints).set_instance(
            pb.SetInstanceRequest(instance=instance_to_pb(state)), timeout_s=TIMEOUT_S
        )
        assert response.error.error_code == 0, response.error.message

    converse(DataDir(data_dir).read_controller_address(), work)
