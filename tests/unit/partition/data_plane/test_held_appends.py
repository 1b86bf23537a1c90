"""Groups of an instance that is over its produce limit wait in order, and not for ever."""

import pytest

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.data_plane import held_appends
from highwater.partition.data_plane.held_appends import HELD_MS_MAX, INSTANCE_BYTES_MAX, HeldAppends
from highwater.partition.data_plane.refused_producers import REMEMBERED_MS
from highwater.partition.quota.meter import PRODUCE_LEAD_MS, NodeMeters, ShareOfNode
from tests.support.log_batches import make_batch
from tests.support.timers import Timers
from tests.unit.hop.sinks import Owner

ONE = InstanceId("one")
TWO = InstanceId("two")
TOPIC = TopicId(b"t" * 16)
RATE = 100_000
FOREVER = 3_600_000
KB = 1_000


class NamedGroup(AppendGroup):
    """One that a test can tell from others."""

    def __init__(self, name, instance, partition):
        super().__init__(TOPIC, partition, 0, 1, instance, Owner())
        self.name = name


class World:
    def __init__(self):
        self.timers = Timers(1_000)
        self.meters = NodeMeters(lambda: self.timers.now_ms)
        self.share(RATE)
        self.held = HeldAppends(
            self.timers.call_later, self._append, self._refuse, lambda _group: None
        )
        self.appended = []
        self.refused = []
        self.sequence = 0

    def share(self, rate, instances=(ONE, TWO)):
        self.meters.take(
            [ShareOfNode(instance=one, produce=rate, consume=None) for one in instances], FOREVER
        )

    def send(self, name, nbytes, *, instance=ONE, deadline_ms=0, producer=None, partition=0):
        group = NamedGroup(name, instance, partition)
        self.sequence += 1
        of_producer = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequence}
        group.batches.append(make_batch(**({} if producer is None else of_producer)))
        group.nbytes = nbytes
        group.deadline_ms = deadline_ms
        self.held.append(self.meters.by_instance[instance], group)
        return group

    def _append(self, group):
        self.appended.append((self.timers.now_ms - 1_000, group.name))

    def _refuse(self, group, failure):
        self.refused.append((self.timers.now_ms - 1_000, group.name, failure.error_code))

    @property
    def held_bytes(self):
        return [self.meters.by_instance[one].held_bytes for one in (ONE, TWO)]


@pytest.fixture
def world():
    return World()


def test_what_the_share_allows_passes_at_once(world):
    group = world.send("a", 10 * KB)
    assert world.appended == [(0, "a")]
    assert group.throttle_ms == 0


def test_the_rest_waits_in_order_and_tells_how_long_the_instance_is_over(world):
    first = world.send("a", 60 * KB)
    assert (
        first.throttle_ms == 500 - PRODUCE_LEAD_MS
    )  # It is larger than a burst, and paid off after it has passed.
    second = world.send("b", 5 * KB)
    world.send("c", 5 * KB, partition=1)
    assert world.held_bytes == [10 * KB, 0]
    world.timers.advance(2_000)
    assert world.appended == [(0, "a"), (550, "b"), (600, "c")]
    assert second.throttle_ms == 1  # Soon c will have passed; but the client is told.
    assert world.held_bytes == [0, 0]
    assert not world.timers.waiting


def test_instances_do_not_wait_for_one_another(world):
    world.send("a", 60 * KB)
    world.send("b", KB)
    world.send("c", KB, instance=TWO)
    assert world.appended == [(0, "a"), (0, "c")]


def test_a_larger_share_counts_for_what_waits_already(world):
    world.send("a", 110 * KB)
    world.send("b", 10 * KB)
    world.share(10 * RATE)
    world.timers.advance(200)
    assert world.appended == [(0, "a"), (110, "b")]


def test_a_limit_that_is_removed_lets_all_pass_in_order(world):
    for name in "abc":
        world.send(name, 110 * KB)
    world.share(None)
    assert [name for _, name in world.appended] == ["a", "b", "c"]
    assert not world.timers.waiting


def test_nothing_passes_without_a_share_until_one_comes(world):
    world.share(0)
    world.send("a", 1)
    world.timers.advance(900)
    assert world.appended == []
    world.share(RATE)
    world.timers.advance(100)
    assert [name for _, name in world.appended] == ["a"]


def test_what_waits_too_long_is_refused_to_be_sent_again(world):
    world.send("a", 1_500 * KB)
    late = world.send("b", 600 * KB)
    world.timers.advance(HELD_MS_MAX - 1)
    assert world.refused == []
    world.timers.advance(10)
    assert world.refused == [(HELD_MS_MAX, "b", ErrorCode.REQUEST_TIMED_OUT)]
    assert late.throttle_ms == pytest.approx(4_900 - PRODUCE_LEAD_MS, abs=20)
    assert world.held_bytes == [0, 0]
    assert not world.timers.waiting


def test_what_is_due_before_is_refused_then(world):
    world.send("a", 500 * KB)
    world.send("b", KB, deadline_ms=world.timers.now_ms + 700)
    world.timers.advance(700)
    assert world.refused == [(700, "b", ErrorCode.REQUEST_TIMED_OUT)]


def test_a_producer_loses_all_or_nothing_of_what_it_sent(world):
    world.send("a", 500 * KB)
    world.send("first", KB, deadline_ms=world.timers.now_ms + 700, producer=7)
    world.send("of another", KB, producer=8)
    world.send("second", KB, producer=7)
    world.send("elsewhere", KB, producer=7, partition=1)
    world.timers.advance(700)
    assert [name for _, name, _ in world.refused] == ["first"]
    world.timers.advance(6_000)
    assert [name for _, name, _ in world.refused] == ["first", "second"]
    assert [name for _, name in world.appended] == ["a", "of another", "elsewhere"]


def test_what_waits_is_bounded_for_an_instance_and_for_the_node(world, monkeypatch):
    world.send("a", 500 * KB)
    world.send("b", INSTANCE_BYTES_MAX)
    refused = world.send("c", 1)
    assert world.refused == [(0, "c", ErrorCode.REQUEST_TIMED_OUT)]
    assert refused.throttle_ms == 5_000 - PRODUCE_LEAD_MS
    monkeypatch.setattr(held_appends, "NODE_BYTES_MAX", INSTANCE_BYTES_MAX)
    world.send("d", 500 * KB, instance=TWO)
    world.send("e", KB, instance=TWO)  # One of an instance may always wait.
    world.send("f", KB, instance=TWO)
    assert [name for _, name, _ in world.refused] == ["c", "f"]


def test_the_number_of_groups_is_bounded(world, monkeypatch):
    monkeypatch.setattr(held_appends, "GROUPS_MAX", 2)
    world.send("a", 500 * KB)
    for name in "bcd":
        world.send(name, 1)
    assert [name for _, name, _ in world.refused] == ["d"]


def test_an_instance_that_becomes_full_is_refused_what_waits(world):
    world.send("a", 50 * KB)
    world.send("b", KB)
    world.meters.by_instance[ONE].storage.take(1, 0, exhausted=True)
    world.timers.advance(1_000)
    assert [(name, code) for _, name, code in world.refused] == [("b", ErrorCode.POLICY_VIOLATION)]
    world.send("c", 1)
    assert world.refused[-1][1:] == ("c", ErrorCode.POLICY_VIOLATION)


def test_what_waits_is_demand(world):
    world.send("a", 110 * KB)
    world.send("b", 300 * KB)
    used = world.meters.take_usage()[ONE]
    # Of the first one a burst has passed, and the rest is to be paid off.
    assert (used.produced, used.held_produce) == (10 * KB, 110 * KB + 300 * KB)


def test_the_end_refuses_what_waits_and_holds_nothing_more(world):
    world.send("a", 50 * KB)
    world.send("b", KB)
    world.held.end()
    assert world.refused == [(0, "b", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert not world.timers.waiting
    assert world.held_bytes == [0, 0]
    world.send("c", KB)
    assert world.appended[-1] == (0, "c")


def test_a_leader_s_end_ends_what_waits_of_its_partition_only(world):
    world.send("a", 60 * KB)
    gone = [world.send(name, 20 * KB, partition=1) for name in "bc"]
    world.send("d", KB)
    for group in gone:
        group.completed = False
    world.held.leader_gone(ONE, (TOPIC, 1), Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    world.held.leader_gone(ONE, (TOPIC, 1), Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    world.held.leader_gone(TWO, (TOPIC, 0), Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert [group.completed for group in gone] == [True, True]
    assert world.held_bytes == [KB, 0]
    world.timers.advance(600)
    assert [name for _, name in world.appended] == ["a", "d"]
    assert not world.timers.waiting


def test_an_end_of_a_leader_while_its_groups_are_appended(world):
    """As when the append finds that the disk has failed: all replicas there end."""
    world.send("a", 60 * KB)
    gone = [world.send(name, KB, partition=1) for name in "bcd"]
    appended = world.held._append

    def append(group):
        appended(group)
        failure = Failure(ErrorCode.KAFKA_STORAGE_ERROR)
        world.held.leader_gone(ONE, (TOPIC, 1), failure)

    world.held._append = append
    world.share(None)
    assert [name for _, name in world.appended] == ["a", "b"]
    assert [group.completed for group in gone] == [False, True, True]
    assert world.held._held_bytes == 0
    assert not world.timers.waiting


def test_what_is_remembered_of_refused_producers_is_forgotten(world):
    world.send("a", 500 * KB)
    world.send("first", KB, deadline_ms=world.timers.now_ms + 700, producer=7)
    world.timers.advance(6_000)
    world.send("second", KB, producer=7)
    assert [name for _, name, _ in world.refused] == ["first", "second"]
    world.timers.advance(REMEMBERED_MS)
    assert not world.held.refused
    assert not world.timers.waiting
    world.send("third", KB, producer=7)
    assert world.appended[-1][1] == "third"


def test_a_group_that_waits_does_not_keep_the_message_that_it_came_in(world):
    world.send("first", 1_000 * KB)
    message = bytearray(100_000)
    message[:200] = bytes(range(200))
    group = AppendGroup(TOPIC, 0, 0, 1, ONE, Owner())
    group.whole = memoryview(message)[:200]
    group.batches = [group.whole[:120], group.whole[120:]]
    group.nbytes = 200
    world.held.append(world.meters.by_instance[ONE], group)
    assert [bytes(batch) for batch in group.batches] == [bytes(range(120)), bytes(range(120, 200))]
    assert bytes(group.whole) == bytes(range(200))
    assert len(group.whole.obj) == 200
    assert group.writable
    message.clear()  # Raises BufferError while anybody looks at it.


def test_a_group_that_is_most_of_its_message_stays_where_it_is(world):
    world.send("first", 1_000 * KB)
    message = bytearray(300)
    group = AppendGroup(TOPIC, 0, 0, 1, ONE, Owner())
    group.whole = memoryview(message)[:100]
    group.batches = [group.whole]
    group.nbytes = 100
    world.held.append(world.meters.by_instance[ONE], group)
    assert group.batches[0].obj is message
