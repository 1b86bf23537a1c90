"""A node's place in the cluster: its registrations and its shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.errors import UsageError
from highwater.model.ids import NodeId, TopicId
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.node.asked_hand_overs import AskedHandOver, HandOverAnswer
from highwater.partition.node.membership import (
    GATEWAY_WAIT_MS,
    INCARNATION_FILE,
    Membership,
    NodeIdentity,
)
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.support import controller as support
from tests.support.controller import FakeNode


class SeenClient(ControllerClient):
    """Keeps registrations."""

    def __init__(self, endpoints: ControllerEndpoints) -> None:
        super().__init__(endpoints)
        self.registrations: list[pb.RegisterNodeRequest] = []

    async def register_node(
        self, request: pb.RegisterNodeRequest, *, timeout_s: float = 10.0
    ) -> pb.RegisterNodeResponse:
        self.registrations.append(request)
        return await super().register_node(request, timeout_s=timeout_s)


class HandOvers:
    """Records requests; the test sets the answers."""

    def __init__(self) -> None:
        self.asked: list[AskedHandOver] = []
        self.answers: tuple[HandOverAnswer, ...] = ()

    def ask(self, asked: Iterable[AskedHandOver]) -> None:
        self.asked += asked


class Clock(SystemClock):
    """May be ahead."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


class Member:
    """Node 1 with its watch; `lineage` is that of its directories now."""

    def __init__(
        self,
        endpoints: ControllerEndpoints,
        directory: Path,
        *,
        in_loop: bool = True,
        has_gateway: bool = False,
    ) -> None:
        self.clock = Clock()
        self.disks_hang = False
        self.full: dict[TopicId, tuple[int, ...]] = {}
        self.session = ControllerSession(SystemClock().monotonic_ms)
        self.client = SeenClient(endpoints)
        self.watch = ClusterWatch(endpoints)
        self.tasks = TaskOwner(lambda _name, _error: None)
        self.lineage: tuple[str, ...] = ("before",)
        self.epochs: list[int] = []
        self.directory = directory
        self.hand_overs = HandOvers()
        self.membership = Membership(
            identity=NodeIdentity(
                node_id=1,
                cluster_id="",
                previous_node_epoch=-1,
                incarnation="this one",
            ),
            log_dirs=[directory],
            rack="",
            endpoints=endpoints,
            client=self.client,
            watch=self.watch,
            tasks=self.tasks,
            log=silent_logger(),
            in_loop=in_loop,
            leader_count=lambda: 0,
            offline_replicas=dict,
            full_replicas=lambda: self.full,
            disks_hang=lambda: self.disks_hang,
            lineage=lambda: self.lineage,
            on_registered=self.epochs.append,
            static_configs={},
            clock=self.clock,
            hand_overs=self.hand_overs,
            session=self.session,
            has_gateway=has_gateway,
        )

    async def join(self) -> Member:
        await self.begin()
        await self.unfenced()
        return self

    async def begin(self) -> None:
        await self.membership.join("127.0.0.1:1")
        self.watch.subscribe(lambda image, _delta: self.membership.applied(image))
        self.watch.start()

    async def unfenced(self) -> None:
        await support.image_when(self.watch, lambda image: not image.nodes[1].fenced)

    async def stays_fenced(self) -> None:
        """For a few heartbeats."""
        await support.image_when(self.watch, lambda image: 1 in image.nodes)
        for _ in range(3):
            self.membership.nudge()
            await asyncio.sleep(0.05)
        assert self.watch.image is not None
        assert self.watch.image.nodes[NodeId(1)].fenced

    async def close(self) -> None:
        await self.membership.leave()
        await self.watch.stop()
        await self.tasks.close(timeout_s=2)


@pytest.fixture
async def controller() -> AsyncIterator[ControllerService]:
    made = await support.started(heartbeat_interval_ms=10_000, session_timeout_ms=60_000)
    yield made
    await made.stop()


@pytest.fixture
async def member(controller: ControllerService, tmp_path: Path) -> AsyncIterator[Member]:
    made = Member(controller.in_process_endpoints(), tmp_path)
    yield made
    await made.close()


async def test_a_registration_says_who_it_is_and_what_its_directories_hold(
    member: Member,
) -> None:
    await member.join()
    (request,) = member.client.registrations
    assert (request.node_id, request.incarnation) == (1, "this one")
    assert request.lineage == ["before"]
    assert member.epochs == [member.membership.node_epoch]
    assert (member.directory / INCARNATION_FILE).read_text() == "this one"


async def test_a_node_that_registers_again_says_what_holds_then(
    member: Member, controller: ControllerService
) -> None:
    await member.join()
    first_epoch = member.membership.node_epoch
    member.lineage = ()  # A directory has failed.
    other = FakeNode(member.client, "127.0.0.1:1", "somebody else", 1, log_dirs=["/elsewhere"])
    assert controller.active is not None
    sessions = controller.active.members.nodes
    sessions.end(NodeId(1))
    assert (await other.register()).error.error_code == 0
    sessions.end(NodeId(1))
    member.membership._answered(
        pb.HeartbeatResponse(error=pb.ApiError(error_code=77, message="stale")), 0
    )
    async with asyncio.timeout(10):
        while len(member.epochs) < 2:
            await asyncio.sleep(0.01)
    assert [list(request.lineage) for request in member.client.registrations][-1] == []
    assert member.membership.node_epoch > first_epoch


async def test_a_taken_node_id_is_an_operator_error(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("highwater.partition.node.membership.REGISTER_TIMEOUT_S", 0.05)
    monkeypatch.setattr("highwater.partition.node.membership.DUPLICATE_RETRY_S", 0.02)
    await FakeNode(member.client, "10.0.0.1:1", "living", 1).join()
    with pytest.raises(UsageError, match="in use by a live node"):
        await member.membership.join("127.0.0.1:1")


async def test_a_draining_node_may_stop_when_others_lead(member: Member) -> None:
    await member.join()
    other = await FakeNode(member.client, "10.0.0.2:1", "other", 2).join()
    topic = support.topic("orders", partitions=4, factor=2)
    await member.client.create_topics(pb.CreateTopicsRequest(instance="default", topics=[topic]))
    image = await support.image_when(member.watch, lambda image: image.topic("orders"))
    assert {p.leader for p in image.topic("orders").partitions} == {1, 2}
    assert await member.membership.drain(5)
    image = member.watch.image
    assert image.nodes[1].draining
    assert {p.leader for p in image.topic("orders").partitions} == {2}
    assert (await other.beat()).error.error_code == 0


async def test_the_only_possible_leader_may_stop_anyway(
    member: Member,
) -> None:
    await member.join()
    await FakeNode(member.client, "10.0.0.2:1", "other", 2).join()
    topic = support.topic("orders", partitions=2)
    await member.client.create_topics(pb.CreateTopicsRequest(instance="default", topics=[topic]))
    await support.image_when(member.watch, lambda image: image.topic("orders"))
    assert await member.membership.drain(5)
    leaders = {p.leader for p in member.watch.image.topic("orders").partitions}
    assert leaders == {1, 2}


async def test_without_a_controller_the_wait_has_an_end(
    member: Member, controller: ControllerService
) -> None:
    await member.join()
    await controller.stop()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert not await member.membership.drain(0.2)
    assert loop.time() - began_s < 2


async def test_a_node_that_never_joined_does_not_drain(member: Member) -> None:
    assert not await member.membership.drain(5)


async def test_a_node_whose_disks_hang_sends_no_heartbeats(tmp_path: Path) -> None:
    """It can write nothing, so others should lead; when it can, it is back at once."""
    controller = await support.started(
        serve_grpc=True, heartbeat_interval_ms=50, session_timeout_ms=500
    )
    endpoints = ControllerEndpoints([controller.address])
    member = Member(endpoints, tmp_path, in_loop=False)
    await member.join()
    assert controller.active is not None
    sessions = controller.active.members.nodes
    member.disks_hang = True
    await support.image_when(member.watch, lambda image: image.nodes[1].fenced)
    assert sessions.get(NodeId(1)) is None
    member.disks_hang = False
    await support.image_when(member.watch, lambda image: not image.nodes[1].fenced)
    assert len(member.epochs) == 1, "it is the same incarnation, as after a pause"
    await member.close()
    await endpoints.close()
    await controller.stop()


async def test_an_embedded_node_sends_heartbeats_even_if_its_disks_hang(member: Member) -> None:
    await member.join()
    member.disks_hang = True
    assert member.membership._heartbeat() is not None


async def test_heartbeats_tell_which_partitions_take_nothing(member: Member) -> None:
    topic_id = TopicId(b"t" * 16)
    member.full = {topic_id: (0, 2)}
    request = member.membership._heartbeat()
    assert request is not None
    (told,) = request.full_replicas
    assert (told.topic_id, list(told.partitions)) == (topic_id, [0, 2])


async def test_the_session_lasts_while_the_controller_lets_the_node_lead(member: Member) -> None:
    now_ms = SystemClock().monotonic_ms()
    assert not member.session.lasts()
    await member.join()
    async with asyncio.timeout(5):
        while not member.session.lasts():
            await asyncio.sleep(0.01)
    assert member.session.timeout_ms == 60_000
    member.session = member.membership._session = session = ControllerSession(lambda: now_ms)
    session.timeout_ms = 100
    member.membership._answered(pb.HeartbeatResponse(fenced=True), now_ms)
    assert not session.lasts(), "whoever is fenced may have been replaced"
    refused = pb.HeartbeatResponse(error=pb.ApiError(error_code=29, message="no"))
    member.membership._answered(refused, now_ms)
    assert not session.lasts()
    member.membership._answered(pb.HeartbeatResponse(), now_ms)
    assert session.lasts()


async def register_gateway(member: Member, node_id: int) -> None:
    state = support.gateway_state(f"gateway of {node_id}")
    state.node_id = node_id
    request = pb.RegisterGatewayRequest(gateway=state)
    response = await member.client.register_gateway(request, timeout_s=5)
    assert response.error.error_code == 0


@pytest.fixture
async def with_gateway(controller: ControllerService, tmp_path: Path) -> AsyncIterator[Member]:
    made = Member(controller.in_process_endpoints(), tmp_path, has_gateway=True)
    yield made
    await made.close()


async def test_a_node_is_fenced_until_the_gateway_of_its_process_is_registered(
    with_gateway: Member,
) -> None:
    await with_gateway.begin()
    await register_gateway(with_gateway, 2)
    await with_gateway.stays_fenced()
    await register_gateway(with_gateway, 1)
    await with_gateway.unfenced()


async def test_the_time_that_a_registration_takes_does_not_count(
    with_gateway: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = with_gateway.client.register_node

    async def register_late(
        request: pb.RegisterNodeRequest, *, timeout_s: float
    ) -> pb.RegisterNodeResponse:
        with_gateway.clock.ahead_ms = 2 * GATEWAY_WAIT_MS
        return await register(request, timeout_s=timeout_s)

    monkeypatch.setattr(with_gateway.client, "register_node", register_late)
    await with_gateway.begin()
    await with_gateway.stays_fenced()


async def test_it_does_not_wait_for_ever(with_gateway: Member) -> None:
    await with_gateway.begin()
    await with_gateway.stays_fenced()
    with_gateway.clock.ahead_ms = GATEWAY_WAIT_MS
    with_gateway.membership.nudge()
    await with_gateway.unfenced()
