"""Registration, sessions and fencing of nodes."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.membership import Registration
from highwater.controller.core.outcome import Decision
from highwater.controller.image import writer
from highwater.controller.members.heartbeats import NodeHeartbeat
from highwater.controller.service import ControllerService
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import (
    Compare,
    Operation,
    StoreUnavailableError,
    TxnResult,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.ids import NO_NODE, NodeId, TopicId
from highwater.runtime.clock import SystemClock
from highwater.runtime.tasks import TaskOwner
from tests.support.controller import (
    FakeNode,
    controller_config,
    die,
    gateway_state,
    image_when,
    node,
    partition_of,
    started,
    topic,
)


async def test_a_new_node_is_fenced_until_it_has_applied_its_registration(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    first = node(client, -1)
    response = await first.register()
    assert (response.node_id, response.error.error_code) == (1, 0)
    assert (await first.beat(response.node_epoch - 1)).fenced
    assert not (await first.beat(response.node_epoch)).fenced
    second = FakeNode(client, "127.0.0.1:9400", "b")
    assert (await second.register()).node_id == 2
    image = await image_when(watch, lambda i: len(i.nodes) == 2)
    assert (image.nodes[1].fenced, image.nodes[2].fenced) == (False, True)  # type: ignore[index]


async def test_a_live_duplicate_is_refused(client: ControllerClient) -> None:
    await node(client, 1).join()
    assert (await node(client, 1, "b").register()).error.error_code == (
        ErrorCode.DUPLICATE_BROKER_REGISTRATION
    )


async def test_the_same_incarnation_keeps_its_epoch(client: ControllerClient) -> None:
    first = await node(client, 1).join()
    again = await node(client, 1).register()
    assert (again.error.error_code, again.node_epoch) == (0, first.epoch)


async def test_a_repeated_registration_has_the_same_epoch(
    controller: ControllerService, client: ControllerClient
) -> None:
    """Otherwise the store would have a node that never comes, or lack a node's epoch."""
    active = controller.active
    assert active is not None
    wanted = Registration(
        node_id=NO_NODE,
        address="h:1",
        rack="",
        incarnation="a",
        log_dirs=(),
        previous_node_epoch=-1,
        lineage=(),
    )
    tasks = TaskOwner(lambda _name, _error: None)
    given_up = tasks.start(active.members.register_node(wanted, ""), name="register")
    await asyncio.sleep(0)
    assert not active.image.nodes
    given_up.cancel()
    admitted = await active.members.register_node(wanted, "")
    assert set(active.image.nodes) == {1}
    assert isinstance(admitted, NodeState)
    assert (await active.members.register_node(wanted, "")) == admitted
    await tasks.close(timeout_s=1)


async def test_another_clusters_node_is_refused(client: ControllerClient) -> None:
    response = await client.register_node(
        pb.RegisterNodeRequest(node_id=1, address="h:1", incarnation="x", cluster_id="other")
    )
    assert response.error.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_a_killed_node_leads_again_after_its_restart(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    first = await node(client, 1).join()
    stream = ClusterWatch(endpoints, watcher=Watcher(node_id=1, node_epoch=first.epoch))
    stream.start()
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t")]))
    await stream.wait_for_revision(created.revision, 5.0)
    before = partition_of(await image_when(watch, lambda i: i.topic("t")), "t")
    await stream.stop()  # As after kill -9.
    await asyncio.sleep(0.05)
    second = node(client, 1, "b")
    assert (await second.register()).error.error_code == 0, "a closed stream frees the id at once"
    assert second.epoch > first.epoch
    assert (await first.beat()).error.error_code == ErrorCode.STALE_BROKER_EPOCH
    fenced = partition_of(await image_when(watch, lambda i: i.nodes[1].fenced), "t")
    assert (fenced.leader, fenced.isr) == (-1, (1,))
    assert not (await second.beat()).fenced
    after = partition_of(await image_when(watch, lambda i: not i.nodes[1].fenced), "t")
    assert (after.leader, after.isr) == (1, (1,))
    assert after.leader_epoch > fenced.leader_epoch > before.leader_epoch


async def test_a_stranger_does_not_come_in_between_two_streams_of_a_live_node(
    client: ControllerClient, endpoints: ControllerEndpoints
) -> None:
    first = await node(client, 1).join()
    stranger = FakeNode(client, "elsewhere:9301", "b", 1, log_dirs=["/empty"])
    await die(endpoints, first)
    refused = (await stranger.register()).error.error_code
    assert refused == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert not (await first.beat()).error.error_code
    await die(endpoints, first)
    await asyncio.sleep(0.3)
    assert not (await stranger.register()).error.error_code, "the session has ended"
    await die(endpoints, stranger)
    restarted = FakeNode(client, "elsewhere:9399", "c", 1, log_dirs=["/empty"])
    assert not (await restarted.register()).error.error_code, "it holds the same directory"


async def test_a_closed_stream_is_death_after_the_grace(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    one, two = await node(client, 1).join(), await node(client, 2).join()
    stream = ClusterWatch(endpoints, watcher=Watcher(node_id=1, node_epoch=one.epoch))
    stream.start()
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 2, 2)]))
    await stream.wait_for_revision(created.revision, 5.0)
    await stream.stop()
    await two.beat()
    image = await image_when(watch, lambda i: i.nodes[1].fenced, timeout_s=1.0)
    assert {partition_of(image, "t", p).leader for p in (0, 1)} == {2}
    assert not image.nodes[2].fenced  # type: ignore[index]
    assert not (await one.beat()).fenced, "it was alive after all and comes back"


async def test_silence_is_death_after_the_session(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await node(client, 1).join()
    await image_when(watch, lambda i: 1 in i.nodes and not i.nodes[1].fenced)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await image_when(watch, lambda i: i.nodes[1].fenced, timeout_s=5.0)
    assert 1.5 < loop.time() - start < 3.5


@pytest.mark.parametrize(("number", "code"), [(-2, 42), (10_000, 0), (10_001, 42)])
async def test_node_ids_have_limits(client: ControllerClient, number: int, code: int) -> None:
    assert (await node(client, number).register()).error.error_code == code


async def test_the_watch_of_node_0_counts_for_its_session(
    controller: ControllerService, client: ControllerClient, endpoints: ControllerEndpoints
) -> None:
    zero = await node(client, 0).join()
    assert controller.active is not None
    streams = controller.active.members.nodes
    watch = ClusterWatch(endpoints, watcher=Watcher(node_id=0, node_epoch=zero.epoch))
    watch.start()
    await watch.wait_for_revision(1, 5.0)
    assert streams.streams(NodeId(0), zero.epoch) == 1
    await watch.stop()


async def test_a_change_is_answered_when_members_have_applied_it(client: ControllerClient) -> None:
    one = await node(client, 1).join()
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("g1")))
    applied = (await client.create_topics(pb.CreateTopicsRequest(topics=[topic("a")]))).revision
    creating = asyncio.ensure_future(
        client.create_topics(pb.CreateTopicsRequest(topics=[topic("b")]))
    )
    done, _ = await asyncio.wait({creating}, timeout=0.3)
    assert not done, "the gateway has not applied it"
    assert not (await one.beat()).fenced
    await client.heartbeat(
        pb.HeartbeatRequest(node_id=-1, gateway_id="g1", applied_revision=applied + 100)
    )
    done, _ = await asyncio.wait({creating}, timeout=0.5)
    assert done
    start = asyncio.get_running_loop().time()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("c")], timeout_ms=100))
    assert asyncio.get_running_loop().time() - start < 1.5, "the wait has a limit"


async def test_a_failed_log_directory_takes_its_partitions_leaders(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    first = await node(client, 1).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t"), topic("u")]))
    image = await image_when(watch, lambda i: i.topic("t") and i.topic("u"))
    state = image.topic("t")
    assert state is not None
    lost = pb.OfflineReplicas(topic_id=state.topic_id, partitions=[0])
    await first.beat(failed_log_dirs=["/data/a"], offline_replicas=[lost])
    await image_when(watch, lambda i: partition_of(i, "t").leader == -1)
    other = partition_of(watch.image, "u")  # type: ignore[arg-type]
    assert (other.leader, other.leader_epoch) == (1, 0)
    # The restarted node finds the directory still broken, and reports it before it may lead.
    await die(endpoints, first)
    second = node(client, 1, "b")
    assert (await second.register()).error.error_code == 0
    await second.beat(offline_replicas=[lost])
    image = await image_when(watch, lambda i: partition_of(i, "u").leader == 1)
    assert partition_of(image, "t").leader == -1
    assert partition_of(image, "t").isr == (1,)
    # Then the directory is repaired.
    await die(endpoints, second)
    third = node(client, 1, "c")
    assert (await third.register()).error.error_code == 0
    await third.beat()
    image = await image_when(watch, lambda i: partition_of(i, "t").leader == 1)
    assert partition_of(image, "u").leader == 1


class HeldStore(MemoryStore):
    """Transactions wait while it is held, and fail while it is unreachable."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.reached.set()
        self.fails = False

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        await self.reached.wait()
        if self.fails:
            raise StoreUnavailableError("no")
        return await super().txn(compares, operations)


async def test_offline_replicas_are_handled_again_after_a_cancelled_heartbeat() -> None:
    store = HeldStore()
    service = await started(store=store)
    client = ControllerClient(service.in_process_endpoints())
    active = service.active
    assert active is not None
    first = await node(client, 1).join()
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t")], timeout_ms=1))
    beat = NodeHeartbeat(
        node_id=NodeId(1),
        node_epoch=first.epoch,
        applied_revision=created.revision,
        offline_replicas={TopicId(created.results[0].topic.topic_id): frozenset({0})},
    )
    tasks = TaskOwner(lambda _name, _error: None)
    store.reached.clear()
    given_up = tasks.start(active.members.heartbeat(beat), name="heartbeat")
    await asyncio.sleep(0.01)
    given_up.cancel()
    store.fails = True
    store.reached.set()
    await asyncio.sleep(0.01)
    store.fails = False
    await active.members.heartbeat(beat)
    assert partition_of(active.image, "t").leader == -1
    await tasks.close(timeout_s=1)
    await service.stop()


async def test_many_queued_changes_delay_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "JOBS_MAX", 3)
    store = HeldStore()
    service = await started(store=store)
    endpoints = service.in_process_endpoints()
    client = ControllerClient(endpoints)
    term = service.active
    assert term is not None
    first = await node(client, 1).join()
    store.reached.clear()
    tasks = TaskOwner(lambda _name, _error: None)
    for number in range(4):
        tasks.start(term.allocate_producer_ids(), name=f"change-{number}")
        await asyncio.sleep(0.01)
    await die(endpoints, first)
    await asyncio.sleep(0.5)
    store.reached.set()
    async with asyncio.timeout(5.0):
        while not term.image.nodes[NodeId(1)].fenced:
            await asyncio.sleep(0.01)
    assert service.active is term
    assert not service.failed.done()
    await tasks.close(timeout_s=1)
    await service.stop()


class TurningStore(MemoryStore):
    """Calls a function in the loop turn after the next transaction, or before it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], object] = list
        self.after: Callable[[], object] = list

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        (before, self.before), (after, self.after) = (self.before, list), (self.after, list)
        before()
        result = await super().txn(compares, operations)
        after()
        return result


async def test_a_node_heard_just_after_its_fencing_gets_a_session() -> None:
    store = TurningStore()
    service = await started(store=store)
    term = service.active
    assert term is not None
    endpoints = service.in_process_endpoints()
    first = await node(ControllerClient(endpoints), 1).join()
    beat = NodeHeartbeat(node_id=NodeId(1), node_epoch=first.epoch, applied_revision=1 << 40)
    tasks = TaskOwner(lambda _name, _error: None)
    # The fence is published when the transaction ends; the heartbeat's turn is the next one.
    store.after = lambda: tasks.start(term.members.heartbeat(beat), name="heartbeat")
    await die(endpoints, first)
    async with asyncio.timeout(5.0):
        while store.after is not list or term.image.nodes[NodeId(1)].fenced:
            await asyncio.sleep(0.001)
        assert term.members.nodes.get(NodeId(1)) is not None
        while not term.image.nodes[NodeId(1)].fenced:
            await asyncio.sleep(0.01)  # It stays silent, so its session must end.
    await tasks.close(timeout_s=1)
    await service.stop()


class LeapingClock(SystemClock):
    """Runs like the machine's clock, from any time that the test sets."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


async def test_sessions_do_not_get_the_time_of_a_commit() -> None:
    """All members sent heartbeats meanwhile, so the controller did not stall."""
    store, clock = TurningStore(), LeapingClock()
    service = ControllerService(controller_config(), clock=clock, store=store, serve_grpc=False)
    await service.start()
    term = await service.wait_active(5.0)
    endpoints = service.in_process_endpoints()
    client = ControllerClient(endpoints)
    first, _ = await node(client, 1).join(), await node(client, 2).join()
    other = term.members.nodes.get(NodeId(2))
    assert other is not None
    heard_ms = other.heard_ms

    def take_long() -> None:
        clock.ahead_ms = 1_500

    store.before = take_long
    await die(endpoints, first)
    async with asyncio.timeout(5.0):
        while not term.image.nodes[NodeId(1)].fenced:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert other.heard_ms == heard_ms
    await service.stop()


async def test_a_heartbeat_between_the_two_commits_of_a_registration_is_stale() -> None:
    """Otherwise the former incarnation is unfenced and elected, and the new one leads as it."""
    service = await started(session_timeout_ms=60_000)
    client = ControllerClient(service.in_process_endpoints())
    former = await node(client, 1).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t")]))
    assert service.active is not None
    writer_of = service.active.members._writer
    commit, between = writer_of.commit, asyncio.Event()
    heard: list[int] = []

    async def commit_later(decide: Callable[[ClusterImage], Decision[Any]]) -> tuple[Any, int]:
        """Sends the heartbeat just before the second commit of the registration."""
        if not between.is_set():
            between.set()
            heard.append((await former.beat()).error.error_code)
        return await commit(decide)

    writer_of.commit = commit_later  # type: ignore[method-assign,assignment]
    members = service.active.members
    members.nodes.stream_opened(NodeId(1), epoch=former.epoch)
    members.nodes.stream_closed(NodeId(1), epoch=former.epoch, now_ms=0)
    successor = node(client, 1, "b")
    successor.previous_epoch = former.epoch
    assert (await successor.register()).error.error_code == 0
    assert heard == [ErrorCode.STALE_BROKER_EPOCH]
    state = partition_of(service.active.image, "t")
    assert (state.leader, service.active.image.nodes[NodeId(1)].fenced) == (NO_NODE, True)
    await service.stop()


async def test_a_node_whose_replacement_failed_may_register_again() -> None:
    service = await started(session_timeout_ms=60_000)
    client = ControllerClient(service.in_process_endpoints())
    former = await node(client, 1).join()
    assert service.active is not None
    members = service.active.members
    commit = members._writer.commit

    async def fails(_: Callable[[ClusterImage], Decision[Any]]) -> tuple[Any, int]:
        raise StoreUnavailableError("not now")

    members.nodes.stream_opened(NodeId(1), epoch=former.epoch)
    members.nodes.stream_closed(NodeId(1), epoch=former.epoch, now_ms=0)
    members._writer.commit = fails  # type: ignore[method-assign,assignment]
    successor = Registration(
        node_id=NodeId(1),
        address=former.address,
        rack="",
        incarnation="b1",
        log_dirs=(),
        previous_node_epoch=former.epoch,
        lineage=(),
    )
    with pytest.raises(StoreUnavailableError):
        await members.register_node(successor, "")
    members._writer.commit = commit  # type: ignore[method-assign]
    assert (await former.beat()).error.error_code == ErrorCode.STALE_BROKER_EPOCH
    await former.join()
    await service.stop()
