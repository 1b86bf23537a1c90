"""Which event answers a group of appends: the states of a group, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from highwater.hop.append import (
    OUTCOME_APPENDED,
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    Failure,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.errors import LogDirFailure
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Owner, Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says
from tests.unit.partition.data_plane.test_replica_stalled import SlowDisk

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def good() -> bytearray:
    return make_batch(timestamps=(1000, 1001))


class Waiting:
    """A leader with a follower, and a group in each state in which it can wait."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.disk = SlowDisk()
        self.disk.stall.stalled = False
        self.replica = node.add(lead=False, environment=self.disk, flush_messages=2)
        self.flushes: list[Callable[[], None]] = []
        self.replica.flush = lambda log, done: self.flushes.append(
            lambda: (log.durability.flush(), done())
        )
        image_says(self.replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
        self.answered: list[tuple[str, int, int]] = []
        """Name, error code, and base offset or outcome."""
        self.append("uncommitted", acks=-1)
        self.append("unflushed", acks=1)
        self.disk.stall.slow_write()
        self.append("in hand", acks=1)
        self.append("queued", acks=0)

    def append(self, name: str, *, acks: int) -> None:
        def heard(offsets: list[int], failures: Mapping[int, Failure] | None) -> None:
            failure = (failures or {}).get(0)
            if failure is None:
                self.answered.append((name, 0, offsets[0]))
            else:
                self.answered.append((name, failure.error_code, failure.outcome))

        group, _ = self.node.group(make_batch(), acks=acks, owner=Owner(heard))
        self.node.plane.append([group])

    def end_late(self) -> None:
        """End the flushes and writes that have begun; nobody waits for them any more."""
        for end in self.flushes:
            end()
        while self.disk.jobs:
            self.disk.finish()


@pytest.fixture
def waiting(node: Node) -> Waiting:
    return Waiting(node)


def test_each_state_ends_by_its_own_event(waiting: Waiting) -> None:
    replica, answered = waiting.replica, waiting.answered
    assert answered == []
    assert len(replica.waiters.commits) == len(replica.answers.unflushed) == 1
    waiting.flushes.pop()()
    assert answered == [("unflushed", 0, 1)]
    assert not replica.answers.unflushed
    waiting.disk.finish()
    assert answered[1:] == [("in hand", 0, 2)]
    waiting.disk.stall.stalled = False
    waiting.disk.finish()
    assert replica.answers.stalled is None
    assert answered[2:] == [], "the second one again asks for a flush"
    waiting.flushes.pop()()
    assert answered[2:] == [("queued", 0, 3)]
    follower_fetched(replica, 2, 4)
    assert answered[3:] == [("uncommitted", 0, 0)]
    assert waiting.node.bugs == []


def test_with_acks_all_a_flush_does_not_answer(waiting: Waiting) -> None:
    waiting.end_late()
    waiting.flushes.clear()
    waiting.disk.stall.stalled = False
    waiting.append("first", acks=1)
    waiting.append("all", acks=-1)
    waiting.answered.clear()
    waiting.flushes.pop()()
    assert (waiting.answered, len(waiting.replica.waiters.commits)) == ([], 2)
    follower_fetched(waiting.replica, 2, waiting.replica.log.log_end_offset)
    assert [name for name, _, _ in waiting.answered] == ["uncommitted", "all"]


def another_leads(replica: PartitionReplica) -> None:
    follow(replica, 2, EPOCH + 1)


@pytest.mark.parametrize("end", [another_leads, PartitionReplica.retire, PartitionReplica.fail])
def test_at_the_end_of_an_epoch_each_group_gets_the_outcome_of_its_state(
    waiting: Waiting, end: Callable[[PartitionReplica], None]
) -> None:
    end(waiting.replica)
    told = [
        ("uncommitted", TIMED_OUT, OUTCOME_UNKNOWN),
        ("unflushed", TIMED_OUT, OUTCOME_UNKNOWN),
        ("in hand", TIMED_OUT, OUTCOME_UNKNOWN),
        ("queued", ErrorCode.NOT_LEADER_OR_FOLLOWER, OUTCOME_NOT_APPENDED),
    ]
    assert waiting.answered == told, "in the order in which they came"
    waiting.end_late()
    assert waiting.answered == told, "each once"
    assert waiting.disk.stall.waiting_bytes == 0
    assert waiting.node.bugs == []


def test_a_refused_batch_keeps_its_own_failure_at_the_end_of_an_epoch(node: Node) -> None:
    """Also if the rest of its group was being written when the epoch ended."""
    replica = node.add(environment=SlowDisk())
    sink = node.append(make_batch(), make_batch()[:40])
    follow(replica, 2, EPOCH + 1)
    assert sink.codes == {0: TIMED_OUT, 1: ErrorCode.CORRUPT_MESSAGE}


def test_held_appends_are_written_when_the_leader_resumes(node: Node) -> None:
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    assert replica.hold_appends()
    kept = [node.append(make_batch(), acks=1), node.append(make_batch(), acks=1)]
    replica.answers.go_on()
    assert [sink.results for sink in kept] == [[], []]
    replica.resume()
    assert [sink.offsets for sink in kept] == [{0: 0}, {0: 1}]
    assert (replica.answers.holds, replica.answers.stalled) == (False, None)


def test_the_deadline_ends_a_groups_own_wait_for_followers(node: Node) -> None:
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    short = node.append(make_batch(), acks=-1, deadline_ms=50)
    long = node.append(make_batch(), acks=-1, deadline_ms=90)
    replica.answers.expire(50)
    assert (short.codes, long.results) == ({0: TIMED_OUT}, [])
    failure = short.results[0][2]
    assert failure is not None
    assert failure.outcome == OUTCOME_APPENDED
    follower_fetched(replica, 2, 2)
    assert (long.offsets, len(short.results)) == ({0: 1}, 1)


def test_other_groups_are_answered_if_a_sink_raises(node: Node) -> None:
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    broken, sound = Sink(), Sink()
    broken.raises = {0}
    first, _ = node.group(make_batch(), acks=-1)
    second, _ = node.group(make_batch(), acks=-1)
    first.sinks, second.sinks = [broken], [sound]
    node.plane.append([first, second])
    follower_fetched(replica, 2, 2)
    assert [str(error) for error in broken.errors] == ["a bug at 0"]
    assert sound.offsets == {0: 1}
    assert node.append(make_batch()).codes == {0: 0}


def test_acks_all_waits_for_the_high_watermark(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    one, two = node.append(good(), acks=-1), node.append(good(), acks=-1)
    leader_only = node.append(good(), acks=1)
    assert leader_only.offsets == {0: 4}
    assert one.results == []
    follower_fetched(replica, 2, 2)
    assert replica.high_watermark == replica.log.stored_high_watermark == 2
    assert one.offsets == {0: 0}
    assert two.results == []
    follow(replica, 2, 5)
    failure = two.results[0][2]
    assert isinstance(failure, Failure)
    assert failure.error_code == ErrorCode.REQUEST_TIMED_OUT, "6 would mean: not stored"
    assert failure.outcome == OUTCOME_UNKNOWN
    assert len(replica.waiters.commits) == 0


def test_acks_all_is_refused_while_the_isr_is_too_small(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), isr=(1,), min_isr=2)
    failure = node.append(good(), acks=-1).results[0][2]
    assert failure.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "min.insync.replicas is 2" in failure.message
    assert replica.log.log_end_offset == 0, "nothing was appended"
    assert node.append(good(), acks=1).codes == {0: 0}
    assert replica.high_watermark == 0
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), isr=(1, 2), min_isr=2)
    waiting = node.append(good(), acks=-1)
    assert waiting.results == []
    follower_fetched(replica, 2, replica.log.log_end_offset)
    assert waiting.codes == {0: 0}


def idempotent(sequence: int) -> bytearray:
    return make_batch(producer_id=7, producer_epoch=0, base_sequence=sequence)


def small_isr(replica: PartitionReplica, *isr: int) -> None:
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), isr=isr, min_isr=2)


def test_a_small_isr_does_not_refuse_what_is_in_the_log(node):
    """The client would take NOT_ENOUGH_REPLICAS for "not stored", and might store it twice."""
    replica = node.add(lead=False)
    small_isr(replica, 1, 2)
    first = node.append(idempotent(0), acks=-1)
    small_isr(replica, 1)
    again = node.append(idempotent(0), acks=-1)
    new = node.append(idempotent(1), acks=-1)
    assert (first.results, again.results) == ([], []), "neither is committed"
    assert new.codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
    small_isr(replica, 1, 2)
    follower_fetched(replica, 2, 1)
    assert (first.offsets, again.offsets) == ({0: 0}, {0: 0})
    assert replica.log.log_end_offset == 1


def test_a_small_isr_answers_what_is_committed_and_refuses_the_rest_of_the_group(node):
    replica = node.add(lead=False)
    small_isr(replica, 1, 2)
    node.append(idempotent(0), acks=-1)
    follower_fetched(replica, 2, 1)
    small_isr(replica, 1)
    both = node.append(idempotent(0), idempotent(1), bytearray(3), good(), acks=-1)
    refused = ErrorCode.NOT_ENOUGH_REPLICAS
    assert both.codes == {0: 0, 1: refused, 2: refused, 3: refused}
    assert both.offsets[0] == 0
    assert replica.log.log_end_offset == 1


def test_a_small_isr_does_not_answer_what_is_being_written(node):
    """The producers' states have it, the log does not: with the log's end committed, it is not."""
    disk = SlowDisk()
    replica = node.add(lead=False, environment=disk)
    small_isr(replica, 1, 2)
    first = node.append(idempotent(0), acks=-1)
    small_isr(replica, 1)
    again = node.append(idempotent(0), acks=-1)
    assert (first.results, again.results, replica.log.log_end_offset) == ([], [], 0)
    disk.finish()
    assert (first.results, again.results, replica.log.log_end_offset) == ([], [], 1)
    small_isr(replica, 1, 2)
    follower_fetched(replica, 2, 1)
    assert (first.offsets, again.offsets) == ({0: 0}, {0: 0})


def test_what_another_flush_has_committed_is_answered_with_the_next_append(node):
    """flush.messages=2: the first group waits for a flush; what has it, too, for the high watermark."""
    replica = node.add(lead=False, flush_messages=2)
    flushes = []
    replica.flush = lambda log, done: flushes.append(done)
    small_isr(replica, 1, 2)
    first = node.append(idempotent(0), acks=-1)
    unflushed = node.append(idempotent(1), acks=-1)
    again = node.append(idempotent(1), acks=-1)
    follower_fetched(replica, 2, 2)
    assert (first.offsets, unflushed.results, again.results) == ({0: 0}, [], [])
    replica.log.durability.flush()  # Not the one that was asked for: as a roll, or log.flush.interval.ms.
    heard = []
    replica.listeners = (lambda it: heard.append(it.high_watermark),)
    node.append(idempotent(2), idempotent(3), acks=-1)
    assert replica.high_watermark == 2
    assert again.offsets == {0: 1}
    assert replica.log.stored_high_watermark == 2
    assert heard[0] == 2


def test_a_refused_batch_keeps_its_own_failure_when_the_log_fails(node, monkeypatch):
    replica = node.add()

    def fails(_self, _info):
        raise LogDirFailure("a", OSError(5, "broken"))

    monkeypatch.setattr(type(replica.log.writer), "append", fails)
    sink = node.append(good(), good()[:40])
    assert sink.codes == {0: ErrorCode.KAFKA_STORAGE_ERROR, 1: ErrorCode.CORRUPT_MESSAGE}


def test_a_full_instance_is_not_told_that_a_batch_is_lost_that_is_stored(node):
    replica = node.add()
    first = node.append(idempotent(0))
    heard = []
    group = group_of(
        idempotent(0),
        idempotent(1),
        epoch=EPOCH,
        owner=Owner(lambda offsets, failures: heard.append((offsets, failures))),
    )

    refusal = Failure(ErrorCode.POLICY_VIOLATION, "full")
    replica.refuse_to_store(group, refusal)
    assert first.offsets == {0: 0}
    assert heard == [([0, -1], {1: refusal})]
    assert replica.log.log_end_offset == 1


def test_a_replica_that_does_not_lead_says_so_before_it_says_full(node):
    replica = node.add(lead=False)
    heard = []
    group = group_of(good(), owner=Owner(lambda _, failures: heard.append(failures)))
    replica.refuse_to_store(group, Failure(ErrorCode.POLICY_VIOLATION, "full"))
    assert heard[0][0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_is_in_the_log_and_not_committed_in_time_is_not_refused_either(node):
    replica = node.add(lead=False)
    small_isr(replica, 1, 2)
    node.append(idempotent(0), acks=-1)
    small_isr(replica, 1)
    again = node.append(idempotent(0), acks=-1, deadline_ms=5)
    replica.answers.expire(5)
    assert again.codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


def test_a_commit_answers_waiting_fetches(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    waiting = node.fetch(ask(0))
    node.append(good())
    node.append(good())
    assert waiting.answers == 0
    follower_fetched(replica, 2, 2)
    assert waiting.sizes == [len(good())]
    assert list(replica.waiters.uncommitted) == [(4, len(good()))]


def test_listeners_are_called_for_appends_commits_and_roles(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    told = []
    replica.listeners = (lambda r: told.append((r.log.log_end_offset, r.high_watermark)),)
    node.append(good())
    follower_fetched(replica, 2, 2)
    follow(replica, 2, EPOCH + 1)
    assert told == [(2, 0), (2, 2), (2, 2)]


def test_a_group_of_a_stream_drops_its_bytes_while_it_waits_for_followers(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    outcomes = []
    owner = Owner(lambda offsets, failures: outcomes.append((offsets, failures)))
    group, _ = node.group(good(), good(), acks=-1, owner=owner)
    group.sinks = []
    node.plane.append([group])
    assert ([bytes(batch) for batch in group.batches], group.whole) == ([b"", b""], None)
    follow(replica, 2, EPOCH + 1)
    [(offsets, failures)] = outcomes
    assert (offsets, set(failures)) == ([-1, -1], {0, 1}), "each batch is told"


def test_a_group_of_this_process_keeps_its_bytes_for_a_resend(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2))
    group, _ = node.group(good(), acks=-1)
    node.plane.append([group])
    assert len(group.batches[0]) == len(good())
