"""`highwater up` while other processes take its ports between their choice and its processes' start."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.embed.supervisor import supervisor as supervisors
from highwater.embed.supervisor.plan import ClusterPlan, make_plan
from highwater.embed.supervisor.supervisor import Supervisor
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import UpOptions
from highwater.model.errors import PortInUseError
from highwater.runtime.logging import silent_logger
from tests.cluster.runner import HOST, START_TIMEOUT_S
from tests.support.process import free_port_block

pytestmark = pytest.mark.full

Losing = Callable[[ClusterPlan], str | None]
"""The address of a plan that a strange process takes before any of ours has started; None for none."""


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[ClusterPlan], list[Losing]]]:
    """The plans that were made, and what the next ones lose."""
    made: list[ClusterPlan] = []
    losing: list[Losing] = []

    def make(options: UpOptions, data_dir: DataDir) -> ClusterPlan:
        plan = make_plan(options, data_dir)
        made.append(plan)
        if losing and (lost := losing.pop(0)(plan)) is not None:
            host, _, port = lost.rpartition(":")
            strangers.enter_context(socket.create_server((host, int(port))))
        return plan

    with ExitStack() as strangers:
        monkeypatch.setattr(supervisors, "make_plan", make)
        yield made, losing


async def test_other_free_ports_are_chosen(
    plans: tuple[list[ClusterPlan], list[Losing]], tmp_path: Path
) -> None:
    made, losing = plans
    losing += [
        lambda plan: plan.controller_address,
        lambda plan: plan.metrics_addresses["partition-1"],
        lambda plan: f"{HOST}:{plan.gateway_addresses[0][1] + 1}",  # Of the node.
    ]
    options = UpOptions(data_dir=tmp_path / "data", port=0, separate=True)
    supervisor = Supervisor(options, silent_logger())
    try:
        async with asyncio.timeout(3 * START_TIMEOUT_S):
            await supervisor.start()
        assert len(made) == 4
        [(host, port)] = supervisor.addresses
        assert (host, port) == made[-1].gateway_addresses[0]
        assert await asyncio.to_thread(_brokers, port) == [(HOST, port + 1)]
    finally:
        await supervisor.stop()


@pytest.mark.parametrize(("separate", "lost"), [(False, 0), (True, 2)], ids=["bootstrap", "node"])
async def test_a_port_that_was_asked_for_and_is_a_stranger_s_ends_the_start(
    plans: tuple[list[ClusterPlan], list[Losing]], tmp_path: Path, *, separate: bool, lost: int
) -> None:
    """Gateways begin without it, as they may have it later."""
    made, losing = plans
    port = free_port_block(3)
    losing.append(lambda _: f"{HOST}:{port + lost}")
    options = UpOptions(data_dir=tmp_path / "data", port=port, nodes=2, separate=separate)
    supervisor = Supervisor(options, silent_logger())
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            with pytest.raises(PortInUseError, match=f"{HOST}:{port + lost} is already in use"):
                await supervisor.start()
        assert len(made) == 1
    finally:
        await supervisor.stop()


def _brokers(port: int) -> list[tuple[str, int]]:
    with KafkaClient(f"{HOST}:{port}") as client:
        return client.live_brokers()
