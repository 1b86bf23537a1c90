"""A node in process with a real controller: the images that it applies, and its stop."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.api.partition.v1 import partition_service_pb2 as partition_pb
from highwater.controller.service import ControllerService
from highwater.hop.fetch import FetchPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.ids import LeaderEpoch, NodeId, TopicId
from highwater.model.steps import finish
from highwater.partition.config import PartitionConfig
from highwater.partition.core.repair import Outcome, outcome_of_refusal
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.leader.range_reads import read_range
from highwater.partition.service import PartitionService
from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import CorruptLogError, DamagedHeaderError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.moving import log_move
from highwater.partition.storage.names import RECOVERY_POINT_CHECKPOINT as CHECKPOINT
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support import controller as support
from tests.support.controller import FakeNode
from tests.support.log_batches import append, forget_positions, make_batch, read_all
from tests.unit.hop.sinks import Sink, group_of
from tests.unit.partition.data_plane.node import Fetched
from tests.unit.partition.storage.scrubbing.test_scrub import flip

NODE = NodeId(1)


@pytest.fixture
async def controller() -> AsyncIterator[ControllerService]:
    made = await support.started(heartbeat_interval_ms=10_000, session_timeout_ms=60_000)
    yield made
    await made.stop()


def node(
    controller: ControllerService, *dirs: Path, node_id: int = NODE, **settings: Any
) -> PartitionService:
    # No follower of these nodes fetches, so waiting for one when they stop is waiting in vain.
    settings = {"drain_catch_up_s": 0.1, **settings}
    return PartitionService(
        PartitionConfig(node_id=node_id, log_dirs=dirs, quota_address="", **settings),
        clock=SystemClock(),
        endpoints=controller.in_process_endpoints(),
        registry=CollectorRegistry(),
        log=silent_logger(),
        embedded=True,
    )


@pytest.fixture
async def service(controller: ControllerService, tmp_path: Path) -> AsyncIterator[PartitionService]:
    made = node(controller, tmp_path)
    await made.start()
    yield made
    await made.stop()


async def create_topic(
    controller: ControllerService, service: PartitionService, **spec: int
) -> None:
    client = ControllerClient(controller.in_process_endpoints())
    await support.image_when(service.watch, lambda image: not image.nodes[NODE].fenced)
    topics = [support.topic("orders", **spec)]
    await client.create_topics(pb.CreateTopicsRequest(instance="default", topics=topics))
    await support.image_when(service.watch, lambda image: image.topic("orders"))


def only(service: PartitionService) -> PartitionReplica:
    (replica,) = service.plane.replicas.values()
    return replica


def one_of_two(
    service: PartitionService, *, leading: bool
) -> tuple[tuple[TopicId, int], PartitionReplica]:
    """The replica that leads its partition, or the one that does not."""
    (found,) = [item for item in service.plane.replicas.items() if item[1].leading == leading]
    return found


def next_image(service: PartitionService, *, node_epoch: int) -> ClusterImage:
    """The node leads in a newer epoch; it is named with `node_epoch`."""
    image = service.watch.image
    assert image is not None
    topic = image.topic("orders")
    assert topic is not None
    (state,) = topic.partitions
    state = replace(
        state,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        partition_epoch=state.partition_epoch + 1,
    )
    named = replace(image.nodes[NODE], node_epoch=node_epoch)
    return replace(
        image,
        revision=image.revision + 1,
        nodes={**image.nodes, NODE: named},
        topics={topic.topic_id: replace(topic, partitions=(state,))},
    )


async def test_an_image_of_another_incarnation_changes_nothing(
    controller: ControllerService, service: PartitionService
) -> None:
    await create_topic(controller, service)
    replica = only(service)
    epoch = service.membership.node_epoch
    before = replica.leader_epoch
    assert replica.leading
    for other in (epoch - 1, epoch + 1):
        finish(service._image_changed(next_image(service, node_epoch=other), None))
        assert replica.leader_epoch == before
    finish(service._image_changed(next_image(service, node_epoch=epoch), None))
    assert replica.leader_epoch == before + 1


async def test_an_early_image_is_applied_after_the_registration(
    controller: ControllerService, service: PartitionService
) -> None:
    await create_topic(controller, service)
    replica = only(service)
    before = replica.leader_epoch
    epoch = service.membership.node_epoch + 1
    early = next_image(service, node_epoch=epoch)
    finish(service.watch._publish(early, None))
    assert replica.leader_epoch == before
    service.membership.node_epoch = epoch
    service._registered(epoch)
    assert service.watch.applied_revision == 0, "the controller is not told that it acts on it yet"
    async with asyncio.timeout(5):
        while not service.watch.applied_revision:
            await asyncio.sleep(0)
    assert replica.leader_epoch == before + 1
    assert replica.core.node_epoch == epoch


def flip_magic(file: str, position: int) -> None:
    with Path(file).open("r+b") as opened:
        opened.seek(position + 16)
        opened.write(b"\xff")


@pytest.mark.parametrize("cache_intact", [True, False])
async def test_records_after_a_damaged_segment_survive_a_kill(
    controller: ControllerService, tmp_path: Path, cache_intact: bool
) -> None:
    service = node(controller, tmp_path / "node")
    await service.start()
    await create_topic(controller, service)
    replica = only(service)
    log = replica.log
    for _ in range(3):
        append(log, make_batch(), epoch=replica.leader_epoch)
    replica.moved(replica.core.appended(log.log_end_offset, log.log_end_offset))
    damaged = log.extent.active
    flip_magic(damaged.file, damaged.size // 3)
    forget_positions(log)
    asked = FetchPartition(replica.topic_id, 0, -1, 1, -1, 1 << 20)
    fetched = Fetched((asked,))
    service.plane.fetch(fetched.work)
    assert fetched.codes == [ErrorCode.CORRUPT_MESSAGE]
    assert log.extent.active is not damaged
    append(log, make_batch(), make_batch(), epoch=replica.leader_epoch)

    def recovery_points() -> list[int]:
        known = checkpoint.read_offsets(FileSystem(), str(tmp_path / "node" / CHECKPOINT))
        return list(known.values())

    async with asyncio.timeout(10):
        while recovery_points() != [3]:
            await asyncio.sleep(0.01)
    # The disk now has what kill -9 leaves.
    # Temporary files come and go while the node writes its checkpoints.
    ignored = shutil.ignore_patterns("*.tmp")
    shutil.copytree(tmp_path / "node", tmp_path / "killed", ignore=ignored)
    await service.stop()
    again = PartitionLog.open(
        tmp_path / "killed" / Path(log.directory).name,
        topic=log.topic,
        partition=0,
        config=LogConfig(),
        clock=SystemClock(),
        recovery_point=3,
        cache_intact=cache_intact,
    )
    assert (again.log_end_offset, again.lost.ranges) == (5, ((1, 3),))
    found = again.reader.read(3, 1 << 20, end_offset=5)
    assert found is not None
    assert found.next_offset == 5
    again.close(clean=False)


class Others:
    """The answer of other nodes' replicas to every request."""

    def __init__(self, answer: bytes | Outcome) -> None:
        self.answer = answer
        self.asked = asyncio.Event()

    async def ask(self, *question: object) -> bytes | Outcome:
        del question
        self.asked.set()
        return self.answer


async def damaged_somewhere(
    controller: ControllerService, service: PartitionService, answer: bytes | Outcome
) -> tuple[tuple[TopicId, int], PartitionReplica]:
    """A leader with damage at an unknown place, whose peer was asked."""
    client = ControllerClient(controller.in_process_endpoints())
    await FakeNode(client, "10.0.0.2:1", "other", 2).join()
    await create_topic(controller, service, factor=2, partitions=2)
    others = Others(answer)
    service.repairs._source = others
    key, replica = one_of_two(service, leading=True)
    service.plane.unreadable(replica, CorruptLogError("somewhere"))
    async with asyncio.timeout(10):
        await others.asked.wait()
    return key, replica


def kept(directory: Path) -> list[Path]:
    return list(directory.glob("*-damaged"))


async def test_an_unreadable_log_is_fetched_again_once_another_replica_is_alive(
    controller: ControllerService, service: PartitionService, tmp_path: Path
) -> None:
    key, replica = await damaged_somewhere(controller, service, b"")
    async with asyncio.timeout(10):
        while service.plane.replicas[key] is replica:
            await asyncio.sleep(0.01)
    again = service.plane.replicas[key]
    assert (again.failed, again.leader) == (False, 2)
    assert again.leader_epoch > replica.leader_epoch
    assert service.replicas.offline == {}
    assert replica.log.directory.endswith("-damaged")
    assert (tmp_path / Path(replica.log.directory).name) in kept(tmp_path)


@pytest.mark.parametrize("answer", [Outcome.SILENT, Outcome.UNWILLING, Outcome.DAMAGED])
async def test_a_damaged_leader_stays_until_a_peer_is_proven_alive_and_whole(
    controller: ControllerService, service: PartitionService, answer: Outcome
) -> None:
    """Its log was once deleted while the other replica was dead but not fenced yet."""
    key, replica = await damaged_somewhere(controller, service, answer)
    await asyncio.sleep(0)
    finish(service._image_changed(next_watched(service), None))
    assert service.plane.replicas[key] is replica
    assert (replica.failed, replica.leading) == (False, True)
    assert service.replicas.offline == {}


def next_watched(service: PartitionService) -> ClusterImage:
    """The same image again."""
    assert service.watch.image is not None
    return service.watch.image


async def test_a_stale_image_leaves_no_partition_without_a_leader(
    controller: ControllerService, service: PartitionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica for which the leader steps back has left the ISR, and the leader does not know.

    The partition had no leader then, and an empty ISR, until the node was started again.
    """
    client = ControllerClient(controller.in_process_endpoints())
    await FakeNode(client, "10.0.0.2:1", "other", 2).join()
    await create_topic(controller, service, factor=2, partitions=2)
    key, replica = one_of_two(service, leading=True)
    append(replica.log, make_batch(), make_batch(), epoch=replica.leader_epoch)
    with monkeypatch.context() as stale:
        stale.setattr(service.replicas, "applying", lambda *_: iter(()))
        answer = await client.alter_partition(
            pb.AlterPartitionRequest(
                node_id=NODE,
                node_epoch=service.membership.node_epoch,
                proposals=[
                    pb.IsrProposal(
                        topic_id=key[0],
                        partition=key[1],
                        leader_epoch=replica.leader_epoch,
                        partition_epoch=replica.core.isr.partition_epoch,
                        isr=[NODE],
                    )
                ],
            ),
            timeout_s=10,
        )
        assert list(answer.results[0].state.isr) == [NODE]
        assert service.replicas.step_back(replica, (2,))
        service.failures.tell_offline()
        await support.image_when(service.watch, lambda image: image_state(image, key).leader < 0)
    finish(service._image_changed(next_watched(service), None))
    await support.image_when(service.watch, lambda image: image_state(image, key).leader == NODE)
    async with asyncio.timeout(10):
        while not service.plane.replicas[key].leading:
            await asyncio.sleep(0.01)
    again = service.plane.replicas[key]
    assert again.log is replica.log
    assert image_state(next_watched(service), key).isr == (NODE,)
    assert service.replicas.offline == {}


def image_state(image: ClusterImage, key: tuple[TopicId, int]) -> PartitionState:
    return image.topics[key[0]].partitions[key[1]]


def bytes_of(log: PartitionLog) -> list[bytes]:
    return [Path(segment.file).read_bytes() for segment in log.extent.all]


class Wired:
    """Asks the replicas of another node of this process."""

    def __init__(self, other: PartitionService) -> None:
        self._other = other

    async def ask(
        self,
        node: int,
        topic_id: TopicId,
        partition: int,
        leader_epoch: int,
        offset: int,
        end_offset: int,
    ) -> bytes | Outcome:
        assert node == self._other.membership.node_id
        plane = self._other.plane
        code, data = await read_range(
            plane.replicas.get((topic_id, partition)),
            leader_epoch=leader_epoch,
            offset=offset,
            end_offset=end_offset,
            max_bytes=1 << 20,
            damaged=plane.damaged,
            whole=plane.is_whole,
        )
        return outcome_of_refusal(code) if code else data


async def test_two_damaged_replicas_heal_from_each_other(
    controller: ControllerService, tmp_path: Path
) -> None:
    """ISR and leader stay the same, and the logs are equal."""
    # The follower cannot fetch, as these nodes have no server; it is to stay in the ISR.
    first, second = (
        node(controller, tmp_path / str(n), node_id=n, replica_lag_time_max_ms=600_000)
        for n in (1, 2)
    )

    def healed() -> int:
        return first.repairs.stats.healed + second.repairs.stats.healed

    async with AsyncExitStack() as running:
        for service, other in ((first, second), (second, first)):
            await service.start()
            running.push_async_callback(service.stop)
            service.repairs._source = Wired(other)
        await support.image_when(
            first.watch, lambda image: len(image.nodes) == 2 and not image.nodes[NodeId(2)].fenced
        )
        await create_topic(controller, first, factor=2)
        await support.image_when(second.watch, lambda image: image.topic("orders"))
        replicas = [only(first), only(second)]
        epoch = replicas[0].leader_epoch
        for replica in replicas:
            for _ in range(3):
                append(replica.log, *[make_batch(value=b"v" * 100)] * 4, epoch=epoch)
                replica.log.roll()
            replica.log.stored_high_watermark = replica.log.log_end_offset
        before = bytes_of(replicas[0].log)
        flip(replicas[0].log.extent.all[0].file, 100)
        flip(replicas[1].log.extent.all[1].file, 16, 0x40)
        flip(replicas[1].log.extent.all[2].file, 300)
        for service in (first, second):
            await service.logs.scrubber.round(service.logs.manager.dirs[0])
        # A range is readable before it is counted: in between, a thread removes the repair's files.
        async with asyncio.timeout(20):
            while healed() < 3:
                await asyncio.sleep(0.01)
        assert healed() == 3
        for service, replica in ((first, replicas[0]), (second, replicas[1])):
            assert replica.log.lost.ranges == ()
            assert bytes_of(replica.log) == before
            assert only(service) is replica
            assert (replica.failed, replica.leader_epoch) == (False, epoch)
            assert set(replica.core.isr.committed) == {1, 2}


async def test_an_untruncatable_follower_begins_with_an_empty_log(
    controller: ControllerService, service: PartitionService
) -> None:
    client = ControllerClient(controller.in_process_endpoints())
    await FakeNode(client, "10.0.0.2:1", "other", 2).join()
    await create_topic(controller, service, factor=2, partitions=2)
    key, replica = one_of_two(service, leading=False)
    replica.log_failed(DamagedHeaderError("there", file="file", position=0, first=0, end=3))
    assert replica.failed
    async with asyncio.timeout(10):
        while service.plane.replicas[key] is replica:
            await asyncio.sleep(0.01)
    assert service.plane.replicas[key].leader == 2
    assert service.replicas.offline == {}


async def test_the_second_start_proves_what_the_first_one_left(
    controller: ControllerService, tmp_path: Path
) -> None:
    first = node(controller, tmp_path)
    await first.start()
    incarnation = first.membership.incarnation
    assert first.logs.lineage == (incarnation,)
    await first.stop()
    second = node(controller, tmp_path)
    await second.start()
    assert second.membership.incarnation != incarnation
    await second.stop()
    third = node(controller, tmp_path)
    assert await asyncio.to_thread(third.logs.open) is not None
    assert third.logs.lineage == (second.membership.incarnation,)
    third.logs.close()


async def test_the_last_node_stops_at_once(controller: ControllerService, tmp_path: Path) -> None:
    service = node(controller, tmp_path)
    await service.start()
    await create_topic(controller, service)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await service.stop()
    assert loop.time() - began_s < 1


async def test_a_node_among_others_stops_when_they_lead(
    controller: ControllerService, tmp_path: Path
) -> None:
    service = node(controller, tmp_path)
    await service.start()
    client = ControllerClient(controller.in_process_endpoints())
    await FakeNode(client, "10.0.0.2:1", "other", 2).join()
    await create_topic(controller, service, factor=2, partitions=2)
    assert service.replicas.leader_count == 1
    await service.stop()
    image = service.watch.image
    assert image is not None
    assert image.nodes[NODE].draining
    topic = image.topic("orders")
    assert topic is not None
    assert [state.leader for state in topic.partitions] == [2, 2]
    assert service.replicas.leader_count == 0, "it knew that before it left"


async def test_an_append_without_a_replica_hears_who_leads(
    controller: ControllerService, service: PartitionService
) -> None:
    client = ControllerClient(controller.in_process_endpoints())
    other = await support.node(client, 2).join()
    await support.image_when(service.watch, lambda image: image.nodes.get(NodeId(2)))
    await create_topic(controller, service, partitions=2)
    assert service.watch.image is not None
    topic = service.watch.image.topic("orders")
    assert topic is not None
    (elsewhere,) = [state for state in topic.partitions if state.leader == other.node_id]
    for behind, epoch in ((1, elsewhere.leader_epoch), (0, -1)):
        sink = Sink()
        known = elsewhere.leader_epoch - behind
        group = group_of(make_batch(), partition=elsewhere.partition, epoch=known, sink=sink)
        group.topic_id = topic.topic_id
        service.plane.append([group])
        ((_, _, failure),) = sink.results
        assert failure is not None
        assert failure.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert failure.leader_epoch == epoch


async def ask_to_move(service: PartitionService, directory: Path) -> None:
    replica = only(service)
    asked = partition_pb.AlterLogDirsRequest(paths=[str(directory)])
    asked.changes.add(topic_id=replica.topic_id, partition=0, path=0)
    assert list((await service.log_dirs.alter(asked)).error_codes) == [ErrorCode.NONE]


async def places(service: PartitionService) -> list[list[bool]]:
    """For each directory, whether what it has of the partition is a copy."""
    asked = partition_pb.DescribeLogDirsRequest(instance="default", all_topics=True)
    told = await service.log_dirs.describe(asked)
    return [[one.is_future for one in directory.replicas] for directory in told.dirs]


async def until_places(service: PartitionService, wanted: list[list[bool]]) -> None:
    async with asyncio.timeout(20):
        while await places(service) != wanted:
            await asyncio.sleep(0.01)


async def test_a_replica_moves_to_another_directory_and_after_a_restart_goes_on(
    controller: ControllerService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirs = tmp_path / "a", tmp_path / "b"
    first = node(controller, *dirs)
    await first.start()
    await create_topic(controller, first)
    replica = only(first)
    sink = Sink()
    group = group_of(make_batch(), sink=sink, topic_id=replica.topic_id, epoch=replica.leader_epoch)
    first.plane.append([group])
    assert sink.codes == {0: 0}
    assert await places(first) == [[False], []]
    await ask_to_move(first, dirs[1])
    await until_places(first, [[], [False]])
    assert replica.log_dir == 1
    with monkeypatch.context() as stopped:
        stopped.setattr(log_move, "SWITCH_BYTES", -1)  # No move completes.
        await ask_to_move(first, dirs[0])
        await until_places(first, [[True], [False]])
        await first.stop()
    second = node(controller, *dirs)
    await second.start()
    try:
        await until_places(second, [[False], []])
        assert len(read_all(only(second).log)) == 1
    finally:
        await second.stop()
