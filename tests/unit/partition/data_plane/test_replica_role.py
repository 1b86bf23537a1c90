"""The state machine's effects on a real log."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.hop.append import OUTCOME_UNKNOWN
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import MAGIC_AT
from highwater.partition.core.replica import NO_APPENDS
from highwater.partition.core.replica_effects import ProposeIsr
from highwater.partition.core.replica_events import Diverged, LagChecked, OutOfRange
from highwater.partition.data_plane.replica_role import ReplicaRole
from highwater.partition.storage.errors import DamagedHeaderError, LogDirFailure
from tests.support.log_batches import forget_positions, make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says, lead


class Port:
    """Records what the replica asks for."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def follow(self, replica: ReplicaRole, leader: int, leader_epoch: int) -> None:
        self.asked.append(("follow", leader, leader_epoch))

    def stop_following(self, replica: ReplicaRole) -> None:
        self.asked.append(("stop",))

    def propose_isr(self, replica: ReplicaRole, proposal: ProposeIsr) -> None:
        self.asked.append(("propose", proposal.isr))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_leaders_epoch_is_checkpointed_at_its_first_append(node: Node) -> None:
    replica = node.add()
    checkpoint = Path(replica.log.directory) / "leader-epoch-checkpoint"
    assert replica.log.epochs.cache.entries() == [(EPOCH, 0)]
    assert not checkpoint.exists()
    node.append(make_batch())
    assert checkpoint.read_text().splitlines() == ["0", "1", f"{EPOCH} 0"]


def test_a_follower_drops_an_epoch_without_records_that_its_leader_lacks(node: Node) -> None:
    replica = node.add()
    node.append(make_batch())
    lead(replica, EPOCH + 1)
    assert replica.log.epochs.cache.latest == EPOCH + 1
    replica.port = Port()
    follow(replica, 2, EPOCH + 2)
    replica.handle(
        Diverged(
            leader_epoch=EPOCH + 2,
            fetch_offset=1,
            last_fetched_epoch=EPOCH + 1,
            epoch=EPOCH,
            end_offset=1,
        )
    )
    assert replica.log.epochs.cache.entries() == [(EPOCH, 0)]
    assert replica.log.log_end_offset == 1
    assert replica.core.may_fetch(EPOCH + 2)


def test_a_follower_truncates_records_that_its_leader_lacks(node: Node) -> None:
    replica = node.add(lead=False)
    replica.port = port = Port()
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    for _ in range(3):
        node.append(make_batch())
    follower_fetched(replica, 2, 1)
    follow(replica, 2, EPOCH + 1)
    assert port.asked == [("stop",), ("follow", 2, EPOCH + 1)], "a leader follows nobody"
    diverged = Diverged(
        leader_epoch=EPOCH + 1,
        fetch_offset=3,
        last_fetched_epoch=EPOCH,
        epoch=EPOCH,
        end_offset=1,
    )
    replica.handle(diverged)
    assert replica.log.log_end_offset == replica.core.log_end_offset == 1
    assert replica.high_watermark == replica.log.stored_high_watermark == 1
    replica.handle(diverged)
    assert replica.log.log_end_offset == 1, "an answer that comes again cuts nothing"


def test_a_follower_whose_offset_is_deleted_restarts_at_the_leaders_log_start(node: Node) -> None:
    replica = node.add(lead=False)
    replica.port = Port()
    follow(replica, 2, EPOCH)
    replica.handle(
        OutOfRange(
            leader_epoch=EPOCH,
            fetch_offset=0,
            last_fetched_epoch=-1,
            leader_log_start_offset=70,
            leader_log_end_offset=90,
        )
    )
    assert (replica.log.log_start_offset, replica.log.log_end_offset) == (70, 70)
    assert replica.high_watermark == 70


def test_a_leader_proposes_an_isr_without_a_lagging_follower(node: Node) -> None:
    replica = node.add(lead=False)
    replica.port = port = Port()
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), now_ms=0)
    node.append(make_batch())
    follower_fetched(replica, 2, 1, now_ms=9_000)
    replica.handle(LagChecked(now_ms=12_000))
    assert port.asked == [("stop",), ("propose", (1, 2))]
    assert replica.high_watermark == 0, "the one that leaves may yet be elected"


def test_a_retired_replica_refuses_fetches_and_stops_following(node: Node) -> None:
    replica = node.add()
    replica.port = port = Port()
    told: list[bool] = []
    replica.listeners = (lambda r: told.append(r.leading),)
    replica.retire()
    assert replica.core.refuse_fetch(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (replica.leader, told, port.asked) == (-1, [False], [("stop",)])
    replica.fail()
    assert replica.core.refuse_fetch(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER, "it is not here"
    assert not replica.failed


def leader_of_three(node: Node) -> ReplicaRole:
    replica = node.add(lead=False)
    replica.port = Port()
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3))
    return replica


def test_a_resigned_leader_accepts_appends_again_in_a_new_epoch(node: Node) -> None:
    replica = leader_of_three(node)
    assert replica.resign()
    assert replica.core.append_epoch == NO_APPENDS
    assert node.append(make_batch()).codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert replica.core.refuse_fetch(-1) == 0
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), isr=(1, 2))
    assert replica.resigned, "the same epoch with another ISR"
    image_says(replica, leader=1, epoch=EPOCH + 1, replicas=(1, 2, 3))
    assert node.append(make_batch(), epoch=EPOCH + 1).codes == {0: 0}


def test_a_replica_does_not_resign_without_a_successor(node: Node) -> None:
    assert not node.add().resign()
    replica = node.add(1, lead=False)
    replica.port = Port()
    follow(replica, 2, EPOCH)
    assert not replica.resign()


def test_a_failed_log_with_a_successor_counts_as_resigned(node: Node) -> None:
    replica = leader_of_three(node)
    waiting = node.append(make_batch(), acks=-1)
    replica.fail()
    # It is in this replica's log, and perhaps in that of the next leader.
    assert waiting.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    told = waiting.results[0][2]
    assert told is not None
    assert told.outcome == OUTCOME_UNKNOWN
    later = node.append(make_batch())
    assert later.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    refusal = later.results[0][2]
    assert refusal is not None
    assert (refusal.leader, refusal.leader_epoch) == (-1, EPOCH + 1)
    assert replica.core.refuse_fetch(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    follow(replica, 2, EPOCH + 1)
    assert (replica.not_leader().leader, replica.not_leader().leader_epoch) == (2, EPOCH + 1)
    replica.fail()
    assert replica.core.refuse_fetch(-1) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_failed_log_without_a_successor_answers_storage_errors(node: Node) -> None:
    replica = node.add(lead=False)
    replica.port = Port()
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), isr=(1,))
    replica.fail()
    assert node.append(make_batch()).codes == {0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert replica.core.refuse_fetch(-1) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_error_during_truncation_takes_the_replica_offline(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = node.add()
    node.append(make_batch())
    replica.port = Port()
    follow(replica, 2, EPOCH + 1)

    def broken(_self: object, _offset: int) -> int:
        raise LogDirFailure("here", OSError(5, "I/O"))

    monkeypatch.setattr(type(replica.log), "truncate_to", broken)
    replica.handle(
        Diverged(
            leader_epoch=EPOCH + 1,
            fetch_offset=1,
            last_fetched_epoch=EPOCH,
            epoch=-1,
            end_offset=0,
        )
    )
    assert replica.failed
    assert len(node.log_failures) == 1
    assert not replica.core.may_fetch(EPOCH + 1)


def test_damage_found_during_truncation_takes_the_replica_offline(node: Node) -> None:
    replica = node.add()
    for _ in range(3):
        node.append(make_batch())
    segment = replica.log.extent.active
    with Path(segment.file).open("r+b") as file:
        file.seek(segment.size // 3 + MAGIC_AT)
        file.write(b"\xff")
    forget_positions(replica.log)
    replica.port = Port()
    follow(replica, 2, EPOCH + 1)
    replica.handle(
        Diverged(
            leader_epoch=EPOCH + 1,
            fetch_offset=3,
            last_fetched_epoch=EPOCH,
            epoch=EPOCH,
            end_offset=2,
        )
    )
    assert replica.failed
    assert [type(error) for error in node.log_failures] == [DamagedHeaderError]
    assert not replica.core.may_fetch(EPOCH + 1)
