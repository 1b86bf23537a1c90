"""Damage is healed from other replicas, tried again, or the whole log is replaced."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from highwater.model.cluster import PartitionState, TopicState
from highwater.model.ids import InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.partition.core.repair import Outcome
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node import repairs
from highwater.partition.node.repairs import Repairs
from highwater.partition.node.replicas import Replicas
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.cleaned_node import CleanedNode
from tests.support.log_batches import append, make_batch, read_all
from tests.unit.partition.data_plane.roles import image_says
from tests.unit.partition.storage.scrubbing.test_scrub import flip

STATE = PartitionState(
    partition=0,
    leader=NodeId(1),
    leader_epoch=LeaderEpoch(4),
    partition_epoch=0,
    replicas=(NodeId(1), NodeId(2), NodeId(3)),
    isr=(NodeId(1), NodeId(2), NodeId(3)),
)
TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16),
    instance=InstanceId("default"),
    name="orders",
    partitions=(STATE,),
)


class Node:
    """A leader whose first segment has a damaged batch, and its peers' answers."""

    ineligible: frozenset[int] = frozenset()

    def __init__(self, directory: Path) -> None:
        self.disk = CleanedNode(directory)
        log = self.disk.log(TOPIC)
        for _ in range(3):
            append(log, make_batch(timestamps=(1, 2), value=b"v" * 50), epoch=4)
        log.roll()
        append(log, make_batch(), epoch=4)
        self.file = Path(log.extent.all[0].file)
        self.sound = self.file.read_bytes()
        self.replica = PartitionReplica(
            node=1,
            topic_id=TOPIC.topic_id,
            topic_name="orders",
            partition=0,
            log=log,
            log_dir=0,
            policy=AppendPolicy(),
            clock=SystemClock(),
            on_log_failure=lambda _replica, _error: None,
        )
        self.plane = DataPlane(lambda _delay, _call: None, lambda _replica, _error: None)
        self.plane.replicas[TOPIC.topic_id, 0] = self.replica
        image_says(self.replica, leader=1, epoch=4, replicas=(1, 2, 3))
        log.stored_high_watermark = log.log_end_offset
        self.answers: dict[int, Outcome] = {}
        self.damaged: set[int] = set()
        """Peers that have lost other records."""
        self.asked: list[int] = []
        self.answering = asyncio.Event()
        """Peers answer while it is set."""
        self.answering.set()
        self.stepped_back: list[set[int]] = []
        self.told = 0
        self.healed: list[PartitionLog] = []
        self.repairs = Repairs(
            plane=self.plane,
            replicas=cast(Replicas, self),
            manager=self.disk.manager,
            source=self,
            clock=SystemClock(),
            log=silent_logger(),
            on_healed=self.healed.append,
            on_stepped_back=self.tell,
        )

    def tell(self) -> None:
        self.told += 1

    def record_of(self, replica: PartitionReplica) -> tuple[TopicState, PartitionState]:
        assert replica is self.replica
        return TOPIC, STATE

    def step_back(self, replica: PartitionReplica, alive: Iterable[int]) -> bool:
        self.stepped_back.append(set(alive))
        replica.fail()
        return True

    async def ask(self, node: int, *place: Any) -> bytes | Outcome:
        self.asked.append(node)
        await self.answering.wait()
        *_, offset, end_offset = place
        if offset == end_offset and node in self.damaged:
            return Outcome.DAMAGED
        if node in self.answers:
            return self.answers[node]
        size = len(self.sound) // 3
        return self.sound[offset // 2 * size : end_offset // 2 * size]

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(10):
            while not done():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def repaired(node: Node) -> AsyncIterator[None]:
    flip(str(node.file), len(node.sound) // 3 + 100)
    node.replica.log.lost.add(2, 4)
    running = asyncio.ensure_future(node.repairs.run())
    yield
    running.cancel()
    await asyncio.wait([running])
    await node.disk.settle()
    node.disk.close()


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(repairs, "RETRY_MS_MIN", 20)
    made = Node(tmp_path)
    async with repaired(made):
        yield made


@pytest.fixture
async def trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A node in a try that fails when its peers answer; the pause after it is long."""
    monkeypatch.setattr(repairs, "RETRY_MS_MIN", 60_000)
    made = Node(tmp_path)
    made.answers = {2: Outcome.DAMAGED, 3: Outcome.DAMAGED}
    made.answering.clear()
    async with repaired(made):
        await made.until(lambda: made.asked)
        yield made


async def test_damage_noted_before_a_start_is_healed(node: Node) -> None:
    log = node.replica.log
    await node.until(lambda: not log.lost.ranges)
    assert node.asked == [2]
    await node.until(lambda: node.repairs.stats.waiting == 0)
    assert (node.repairs.stats.healed, node.healed) == (1, [log])
    assert len(read_all(log)) == 4
    assert node.file.read_bytes() == node.sound
    assert (node.replica.leading, node.stepped_back) == (True, [])


async def test_a_damaged_or_silent_peer_is_skipped_and_asked_again(node: Node) -> None:
    node.answers = {2: Outcome.DAMAGED, 3: Outcome.SILENT}
    await node.until(lambda: node.asked.count(3) >= 2)
    assert node.repairs.may_heal_soon(node.replica)
    assert (node.replica.failed, node.repairs.stats.waiting) == (False, 1)
    del node.answers[3]
    await node.until(lambda: not node.replica.log.lost.ranges)
    assert node.stepped_back == []


async def test_damage_that_no_peer_can_heal_is_kept(node: Node) -> None:
    node.answers = {2: Outcome.DAMAGED, 3: Outcome.DAMAGED}
    await node.until(lambda: node.repairs.stats.not_healable)
    assert not node.repairs.may_heal_soon(node.replica), "who asks for it is told that it is lost"
    assert (node.replica.leading, node.stepped_back) == (True, [])


async def test_a_log_that_cannot_be_healed_in_place_steps_back_for_live_peers(node: Node) -> None:
    node.answers = {2: Outcome.SILENT, 3: Outcome.DIFFERS}
    node.repairs.damaged(node.replica)
    await node.until(lambda: node.told)
    assert node.stepped_back == [{3}]
    assert node.repairs.stats.replaced == 1


async def test_nobody_steps_back_for_a_peer_that_has_lost_other_records(node: Node) -> None:
    """It may find that at the same time, and step back for this one."""
    node.answers = {2: Outcome.DIFFERS, 3: Outcome.DIFFERS}
    node.damaged = {2, 3}
    await node.until(lambda: node.repairs.stats.not_healable)
    assert (node.replica.leading, node.stepped_back) == (True, [])
    node.damaged = {2}
    await node.until(lambda: node.told)
    assert node.stepped_back == [{3}]


async def test_a_replica_is_whole_while_no_damage_is_known(node: Node) -> None:
    log = node.replica.log
    assert not node.repairs.is_whole(node.replica)
    await node.until(lambda: not log.lost.ranges)
    await node.until(lambda: node.repairs.is_whole(node.replica))
    node.answers = {2: Outcome.SILENT, 3: Outcome.SILENT}
    node.repairs.damaged(node.replica, unplaced="no batch at position 0")
    assert not node.repairs.is_whole(node.replica)


async def test_damage_at_an_unknown_place_needs_a_live_peer(node: Node) -> None:
    log = node.replica.log
    await node.until(lambda: not log.lost.ranges)
    node.answers = {2: Outcome.SILENT, 3: Outcome.UNWILLING}
    node.asked.clear()
    assert node.repairs.damaged(node.replica, unplaced="no batch at position 0")
    await node.until(lambda: node.asked.count(3) >= 2)
    assert node.stepped_back == []
    del node.answers[2]
    await node.until(lambda: node.told)
    assert node.stepped_back == [{2}]


@pytest.mark.parametrize("unplaced", ["", "no batch at position 0"])
async def test_damage_found_during_a_try_that_fails_does_not_wait_out_its_pause(
    trying: Node, monkeypatch: pytest.MonkeyPatch, unplaced: str
) -> None:
    monkeypatch.setattr(repairs, "TRIES_APART_MS", 20)
    if not unplaced:
        trying.replica.log.lost.add(4, 6)
    trying.repairs.damaged(trying.replica, unplaced)
    trying.answering.set()
    await trying.until(lambda: trying.asked.count(2) > 1)


async def test_known_damage_that_reads_find_again_waits_out_the_pause(
    trying: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairs, "TRIES_APART_MS", 0)
    trying.answering.set()
    await trying.until(lambda: trying.repairs.stats.not_healable)
    for _ in range(10):
        trying.repairs.damaged(trying.replica)
        await asyncio.sleep(0.01)
    assert trying.asked == [2, 3]


async def test_tries_are_apart_whatever_is_found(
    trying: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairs, "TRIES_APART_MS", 60_000)
    trying.answering.set()
    await trying.until(lambda: trying.repairs.stats.not_healable)
    for end in (1, 2):
        trying.replica.log.lost.add(0, end)
        trying.repairs.damaged(trying.replica)
        await asyncio.sleep(0.05)
    assert trying.asked == [2, 3]
