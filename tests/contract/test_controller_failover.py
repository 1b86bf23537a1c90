"""Two controller processes on one etcd: the active one is killed, paused or stopped."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints, GrpcEndpoint
from highwater.metadata.status import ACTIVE_KEY, is_not_controller, trailing_value
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import ClusterImage
from tests.support.controller import FakeNode, topic
from tests.support.etcd import EtcdMemberProcess, free_ports

pytestmark = [pytest.mark.etcd, pytest.mark.slow]

LEASE_TTL_MS = 2_000


class ControllerProcess:
    """One controller in a process of its own."""

    def __init__(self, name: str, port: int, etcd: EtcdMemberProcess, prefix: str, log: Path):
        self.address = f"127.0.0.1:{port}"
        environment = {
            "PORT": str(port),
            "CONTROLLER_ID": name,
            "STORE": "etcd",
            "ETCD__ENDPOINTS": f'["{etcd.endpoint}"]',
            "ETCD__PREFIX": prefix,
            "LEASE_TTL_MS": str(LEASE_TTL_MS),
            "SESSION_TIMEOUT_MS": "3000",
            "HEARTBEAT_INTERVAL_MS": "500",
        }
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "highwater.controller"],
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    **{f"HIGHWATER_CONTROLLER_{k}": v for k, v in environment.items()},
                },
            )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(5)


class Pair:
    """Both controllers, by address, and a client's endpoints."""

    def __init__(self, controllers: list[ControllerProcess]):
        self.by_address = {controller.address: controller for controller in controllers}
        self.endpoints = ControllerEndpoints(list(self.by_address))
        self.client = ControllerClient(self.endpoints)
        self.watch = ClusterWatch(self.endpoints)
        self.node_port = socket.create_server(("127.0.0.1", 0))
        """Of the fake node; without a listener the controller would take it for dead."""

    def active(self) -> ControllerProcess:
        """The controller that answered the client's last call."""
        return self.by_address[self.endpoints.present]

    def standby(self) -> ControllerProcess:
        """The other one."""
        (other,) = self.by_address.keys() - {self.endpoints.present}
        return self.by_address[other]


@pytest.fixture
def processes(
    etcd: EtcdMemberProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[list[ControllerProcess]]:
    made = [
        ControllerProcess(f"c{i}", port, etcd, f"/{request.node.name}/", tmp_path / f"c{i}.log")
        for i, port in enumerate(free_ports(2))
    ]
    yield made
    for controller in made:
        controller.end()
        print((tmp_path / f"c{made.index(controller)}.log").read_text()[-3_000:])


@pytest.fixture
async def pair(processes: list[ControllerProcess]) -> AsyncIterator[Pair]:
    made = Pair(processes)
    made.watch.start()
    await made.watch.wait_for_revision(1, 20.0)
    yield made
    made.node_port.close()
    await made.watch.stop()
    await made.endpoints.close()


async def join(pair: Pair) -> FakeNode:
    address = f"127.0.0.1:{pair.node_port.getsockname()[1]}"
    return await FakeNode(pair.client, address, "a", 1).join()


async def create(pair: Pair, name: str) -> ClusterImage:
    response = await pair.client.create_topics(
        pb.CreateTopicsRequest(topics=[topic(name, 3)]), timeout_s=20.0
    )
    assert response.results[0].error.error_code == 0, response.results[0].error.message
    return await pair.watch.wait_for_revision(response.revision, 10.0)


async def test_kill_9_of_the_active_controller(pair: Pair) -> None:
    node = await join(pair)
    before = await create(pair, "before")
    dead = pair.active()
    dead.signal(signal.SIGKILL)
    loop = asyncio.get_running_loop()
    start = loop.time()
    # Like a service: only heartbeats are repeated, so they find the new controller.
    assert not (await node.beat()).error.error_code
    assert loop.time() - start < LEASE_TTL_MS / 1000 + 3.0
    after = await create(pair, "after")
    assert pair.active() is not dead
    assert after.controller_epoch > before.controller_epoch
    assert after.topics.items() >= before.topics.items(), "nothing moved: the node is alive"
    assert after.nodes[1].node_epoch == node.epoch  # type: ignore[index]
    assert not (await node.beat()).fenced, "its session goes on under the new controller"


async def test_a_paused_controller_wakes_up_fenced(pair: Pair) -> None:
    node = await join(pair)
    await create(pair, "before")
    old = pair.active()
    old.signal(signal.SIGSTOP)
    assert not (await node.beat()).error.error_code
    await create(pair, "after")
    new_address = pair.endpoints.present
    assert new_address != old.address
    old.signal(signal.SIGCONT)
    endpoint = GrpcEndpoint(old.address)
    try:
        # The old controller serves no call after it wakes up.
        for _ in range(10):
            with pytest.raises(grpc.RpcError) as raised:
                await endpoint.controller.CreateTopics(
                    pb.CreateTopicsRequest(topics=[topic("split-brain")]), timeout=5.0
                )
            assert is_not_controller(raised.value)
            await asyncio.sleep(0.05)
        async with asyncio.timeout(10):
            while trailing_value(raised.value, ACTIVE_KEY) != new_address:
                await asyncio.sleep(0.1)
                with pytest.raises(grpc.RpcError) as raised:
                    await endpoint.controller.CreateTopics(pb.CreateTopicsRequest(), timeout=5.0)
    finally:
        await endpoint.close()
    image = await create(pair, "later")
    assert {t.name for t in image.topics.values()} == {"before", "after", "later"}


async def test_sigterm_hands_over_at_once(pair: Pair) -> None:
    node = await join(pair)
    await create(pair, "before")
    leaving = pair.active()
    leaving.signal(signal.SIGTERM)
    loop = asyncio.get_running_loop()
    start = loop.time()
    # The new controller changes nothing before a member's heartbeat or watch.
    assert not (await node.beat()).error.error_code
    await create(pair, "after")
    assert loop.time() - start < LEASE_TTL_MS / 1000, "it did not have to wait for the lease"
    assert await asyncio.to_thread(leaving.process.wait, 10) == 0


async def described(pair: Pair, *, voters: int) -> pb.DescribeQuorumResponse:
    """The quorum, once so many controllers stand for election."""
    async with asyncio.timeout(20):
        while True:
            told = await pair.client.describe_quorum(pb.DescribeQuorumRequest())
            if len(told.voters) == voters:
                return told
            await asyncio.sleep(0.1)


async def test_the_quorum_before_and_after_its_leader_ends(pair: Pair) -> None:
    node = await join(pair)
    before = await described(pair, voters=2)
    leader, standby = before.voters
    assert leader.replica_id == before.leader_id
    assert (leader.address, standby.address) == (pair.active().address, pair.standby().address)
    assert standby.revision == before.revision
    assert [one.replica_id for one in before.observers] == [node.node_id]
    pair.active().signal(signal.SIGTERM)
    after = await described(pair, voters=1)
    assert after.leader_id == standby.replica_id, "it keeps its id"
    assert after.controller_epoch > before.controller_epoch
    assert after.revision >= before.revision
