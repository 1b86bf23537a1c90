"""Appends of an instance over its produce limit, on real logs: nothing overtakes what waits, and nothing
waits in vain.
"""

import pytest

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import RecordBatchView
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.transactions import TransactionMarker
from highwater.partition.data_plane import held_appends
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.held_appends import HELD_MS_MAX
from highwater.partition.quota.meter import NodeMeters, ShareOfNode
from tests.support.log_batches import make_batch, read_all
from tests.support.timers import Timers
from tests.unit.hop.sinks import TOPIC, Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, image_says, lead
from tests.unit.partition.data_plane.transactions import WRITE

RATE = 100_000
KB = 1_000
NOT_YET = ErrorCode.REQUEST_TIMED_OUT
ELSEWHERE = ErrorCode.NOT_LEADER_OR_FOLLOWER


class World:
    """A node whose default instance may store 100 KB/s; times are from the begin."""

    def __init__(self, directory):
        self.timers = Timers(1_000)
        self.meters = NodeMeters(lambda: self.timers.now_ms)
        self.share(RATE)
        self.node = Node(
            directory, meters=self.meters.by_instance, call_later=self.timers.call_later
        )
        self.replicas = [self.node.add(partition) for partition in range(2)]
        self.answers = []

    def share(self, rate):
        share = ShareOfNode(instance=DEFAULT_INSTANCE, produce=rate, consume=None)
        self.meters.take([share], 3_600_000)

    @property
    def meter(self):
        return self.meters.by_instance[DEFAULT_INSTANCE]

    def send(self, *batches, partition=0, acks=-1, epoch=EPOCH, deadline_ms=0, transaction=None):
        """One group, as a message of a gateway has it. Its answers go to `answers`, too."""
        sink = Sink()
        group = group_of(
            *batches,
            partition=partition,
            acks=acks,
            epoch=epoch,
            sink=sink,
            transaction=transaction,
            deadline_ms=deadline_ms and self.timers.now_ms + deadline_ms,
        )
        self.node.plane.append([group])
        return sink

    def advance(self, ms):
        self.timers.advance(ms)

    def spend(self, ms):
        """Stores so much that nothing may pass for so long."""
        self.advance(100)  # The bucket is full then.
        assert self.send(plain(ms * RATE // 1000 + 10 * KB), partition=1).codes == {0: 0}

    def stored(self, partition=0):
        """(producer, first sequence) of each batch in the log."""
        headers = read_all(self.replicas[partition].log)
        return [(header.producer_id, header.base_sequence) for header in headers]


def plain(nbytes):
    return make_batch(value=b"v" * (nbytes - 70))


def batch(sequence, nbytes=KB, *, producer=7, epoch=0, transactional=False):
    made = make_batch(
        value=b"v" * (nbytes - 70),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    assert RecordBatchView(made, 0, len(made)).header().record_count == 1
    return made


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_what_waits_is_stored_in_the_order_in_which_it_came(world, acks):
    world.spend(300)
    sinks = [world.send(batch(number), acks=acks) for number in range(3)]
    world.advance(250)
    assert [sink.results for sink in sinks] == [[]] * 3
    world.advance(200)
    assert [sink.codes for sink in sinks] == [{0: 0}] * 3
    assert world.stored() == [(7, 0), (7, 1), (7, 2)]


def test_what_a_broken_stream_sends_again_is_stored_once(world):
    """Or what a client sends again by another gateway, while its first connection's batches wait."""
    world.spend(300)
    nobody_hears = [world.send(batch(number)) for number in range(2)]
    again = [world.send(batch(number)) for number in range(3)]
    world.advance(1_000)
    assert world.stored() == [(7, 0), (7, 1), (7, 2)]
    assert [sink.offsets for sink in again] == [{0: 0}, {0: 1}, {0: 2}]
    assert [sink.offsets for sink in nobody_hears] == [{0: 0}, {0: 1}]


# ---- what found no room, or waited too long ----


@pytest.fixture
def small(world, monkeypatch):
    """A node that is over the limit, with room for 5 KB."""
    monkeypatch.setattr(held_appends, "INSTANCE_BYTES_MAX", 20 * KB)
    world.spend(300)
    world.send(plain(15 * KB), partition=1)
    return world


def test_a_batch_does_not_overtake_one_that_found_no_room(small):
    first = small.send(batch(0, 10 * KB))
    second = small.send(batch(1))
    small.advance(1_000)
    assert (first.codes, second.codes) == ({0: NOT_YET}, {0: NOT_YET})
    assert small.stored() == []
    third = small.send(batch(2))
    again = [small.send(batch(number)) for number in range(3)]
    small.advance(1_000)
    assert third.codes == {0: NOT_YET}, "it was under way when its client heard of the first one"
    assert [sink.codes for sink in again] == [{0: 0}] * 3
    assert small.stored() == [(7, 0), (7, 1), (7, 2)]


def test_a_log_that_knows_the_producer_need_not_refuse_what_it_sends_without_a_lost_batch(small):
    small.advance(1_000)
    assert small.send(batch(0)).codes == {0: 0}
    small.spend(300)
    small.send(plain(15 * KB), partition=1)
    lost, next_one = small.send(batch(1, 10 * KB)), small.send(batch(2))
    small.advance(1_000)
    assert (lost.codes, next_one.codes) == ({0: NOT_YET}, {0: NOT_YET}), "not out of sequence"
    small.advance(100)
    assert [small.send(batch(number)).codes for number in (1, 2)] == [{0: 0}] * 2


def test_others_of_the_same_group_are_stored(small):
    small.send(batch(0, 10 * KB))
    mixed = small.send(batch(0, producer=8), batch(1), batch(1, producer=8))
    small.advance(1_000)
    assert mixed.codes == {0: 0, 1: NOT_YET, 2: 0}
    assert small.stored() == [(8, 0), (8, 1)]
    assert small.meter.held_bytes == 0


def test_what_was_lost_is_waited_for_when_there_is_no_limit_any_more(small):
    lost = small.send(batch(0, 10 * KB))
    small.meters.take([], 3_600_000)
    assert not small.meters.by_instance
    assert lost.codes == {0: NOT_YET}
    assert small.send(batch(1)).codes == {0: NOT_YET}
    assert small.send(batch(2), batch(0, producer=8)).codes == {0: NOT_YET, 1: 0}
    assert [small.send(batch(number)).codes for number in range(3)] == [{0: 0}] * 3
    assert small.stored() == [(8, 0), (7, 0), (7, 1), (7, 2)]


def test_other_partitions_of_the_producer_go_on(small):
    small.send(batch(0, 10 * KB))
    elsewhere = small.send(batch(0), partition=1)
    small.advance(1_000)
    assert elsewhere.codes == {0: 0}


def test_a_batch_that_was_in_the_log_is_not_missed(small):
    small.advance(1_000)
    assert small.send(batch(0, 8 * KB)).codes == {0: 0}
    small.spend(300)
    small.send(plain(15 * KB), partition=1)
    twice = small.send(batch(0, 8 * KB))
    assert twice.offsets == {0: 0}, "it is in the log, though there is no room"
    next_one = small.send(batch(1))
    small.advance(1_000)
    assert next_one.codes == {0: 0}


def test_a_new_epoch_begins_anew(small):
    small.send(batch(0, 10 * KB))
    small.advance(1_000)
    assert small.send(batch(0, epoch=1)).codes == {0: 0}


def test_what_is_sent_after_a_late_one_was_refused_waits_for_it(world):
    world.spend(300)
    late = world.send(batch(0), deadline_ms=200)
    world.advance(250)
    assert late.codes == {0: NOT_YET}
    next_one = world.send(batch(1))
    world.advance(1_000)
    assert next_one.codes == {0: NOT_YET}
    assert [world.send(batch(number)).codes for number in (0, 1)] == [{0: 0}] * 2
    assert world.stored() == [(7, 0), (7, 1)]


def test_the_end_of_a_long_wait_looks_at_each_batch_a_few_times_only(world):
    world.share(1)

    class Counted(bytearray):
        looks = 0

        def __len__(self):
            Counted.looks += 1
            return super().__len__()

    made = [Counted(batch(0, 100, producer=number)) for number in range(1_000)]
    world.spend(10_000)
    sinks = [world.send(one) for one in made]
    world.advance(HELD_MS_MAX + 100)
    assert [sink.codes for sink in sinks] == [{0: NOT_YET}] * 1_000
    assert Counted.looks < 30 * len(made)


# ---- the leader ----


def test_a_leader_that_is_replaced_answers_what_waits_at_once(world):
    world.spend(5_000)
    sinks = [world.send(batch(number)) for number in range(3)]
    other = world.send(plain(KB), partition=1)
    follow(world.replicas[0], leader=2, epoch=EPOCH + 1)
    assert [sink.codes for sink in sinks] == [{0: ELSEWHERE}] * 3
    (failure,) = [failure for _, _, failure in sinks[0].results]
    assert (failure.leader, failure.leader_epoch) == (2, EPOCH + 1)
    assert (other.results, world.meter.held_bytes) == ([], len(plain(KB)))
    world.advance(6_000)
    assert other.codes == {0: 0}
    assert [len(sink.results) for sink in sinks] == [1, 1, 1]
    assert not world.timers.waiting


def test_what_waited_behind_a_replaced_leader_s_goes_on_when_it_may(world):
    world.spend(100)
    world.send(batch(0, 90 * KB))
    small = world.send(plain(KB), partition=1)
    world.share(10 * KB)
    follow(world.replicas[0], leader=2, epoch=EPOCH + 1)
    world.advance(1_200)
    assert small.codes == {0: 0}


def test_the_same_leader_in_a_new_epoch_takes_what_is_sent_again(world):
    world.spend(300)
    old = world.send(batch(0))
    lead(world.replicas[0], EPOCH + 1)
    assert old.codes == {0: ELSEWHERE}
    again = world.send(batch(0), epoch=EPOCH + 1)
    next_one = world.send(batch(1), epoch=EPOCH + 1)
    world.advance(1_000)
    assert (again.codes, next_one.codes) == ({0: 0}, {0: 0})
    assert world.stored() == [(7, 0), (7, 1)]


@pytest.mark.parametrize("wrong", [{"partition": 5}, {"epoch": EPOCH - 1}, {"epoch": EPOCH + 1}])
def test_what_came_to_the_wrong_node_neither_waits_nor_counts(world, wrong):
    world.spend(5_000)
    used = world.meter.usage.produced
    sink = world.send(batch(0), **wrong)
    assert sink.codes == {0: ELSEWHERE}
    assert (world.meter.usage.produced, world.meter.held_bytes) == (used, 0)


def test_a_topic_that_is_deleted_answers_what_waits(world):
    world.spend(5_000)
    sink = world.send(batch(0))
    world.node.plane.replicas.pop((TOPIC, 0)).retire()
    assert sink.codes == {0: ELSEWHERE}
    assert world.meter.held_bytes == 0


def test_a_failed_log_answers_what_waits(world):
    world.spend(5_000)
    sink = world.send(batch(0))
    world.replicas[0].fail()
    assert sink.codes == {0: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_leader_that_hands_over_and_resumes_stores_what_waited_in_order(world):
    world.spend(300)
    sinks = [world.send(batch(0))]
    image_says(world.replicas[0], leader=1, epoch=EPOCH, replicas=(1, 2))
    assert world.replicas[0].hold_appends()
    sinks.append(world.send(batch(1)))
    world.advance(1_000)
    assert [sink.results for sink in sinks] == [[], []]
    world.replicas[0].resume()
    image_says(world.replicas[0], leader=1, epoch=EPOCH, replicas=(1,))
    assert [sink.codes for sink in sinks] == [{0: 0}, {0: 0}]
    assert world.stored() == [(7, 0), (7, 1)]


def test_what_waits_for_a_larger_isr_comes_after_what_waits_for_the_share(world):
    world.spend(300)
    first = world.send(batch(0))
    image_says(world.replicas[0], leader=1, epoch=EPOCH, replicas=(1, 2), isr=(1,), min_isr=2)
    second = world.send(batch(1))
    assert second.results == [], "its turn comes after the first one's"
    image_says(world.replicas[0], leader=1, epoch=EPOCH, replicas=(1,))
    world.advance(1_000)
    assert (first.codes, second.codes) == ({0: 0}, {0: 0})


@pytest.mark.parametrize(("acks", "code"), [(0, ELSEWHERE), (1, ELSEWHERE), (-1, 0)])
def test_a_leader_whose_session_ends_meanwhile(world, acks, code):
    """It may have been replaced: only what its followers take is safe."""
    session = ControllerSession(lambda: world.timers.now_ms)
    session.timeout_ms = 500
    session.vouched_for(world.timers.now_ms)
    assert world.node.add(2, session=session).leading
    world.spend(600)
    sink = world.send(batch(0), partition=2, acks=acks)
    world.advance(1_000)
    assert sink.codes == {0: code}


# ---- limits and transactions ----


@pytest.mark.parametrize("rate", [None, 1_000 * RATE])
def test_a_limit_that_goes_lets_all_pass_in_order(world, rate):
    world.spend(300)
    sinks = [world.send(batch(number)) for number in range(3)]
    world.share(rate)
    world.advance(20)
    assert [sink.codes for sink in sinks] == [{0: 0}] * 3
    assert world.stored() == [(7, 0), (7, 1), (7, 2)]
    assert not world.timers.waiting


@pytest.mark.parametrize("committed", [False, True])
def test_a_batch_whose_transaction_ends_meanwhile_is_in_no_other(world, committed):
    replica = world.replicas[0]
    states = replica.log.producers.states
    states.verifications.grant(7, states.verifications.asked(7, 0, 0, own_epoch=True))
    begun = world.send(batch(0, transactional=True), transaction=WRITE)
    assert begun.codes == {0: 0}
    world.spend(300)
    held = world.send(batch(1, transactional=True), transaction=WRITE)
    marker = TransactionMarker(7, 1, committed, coordinator_epoch=0, transaction_version=2)
    end_transaction(world, marker)
    world.advance(1_000)
    assert held.codes == {0: ErrorCode.INVALID_TXN_STATE}, "its coordinator has not granted another"
    assert not replica.transactions.open


def end_transaction(world, marker):
    states = world.replicas[0].log.producers.states
    end = world.replicas[0].log.extent.end_offset
    assert states.check_marker(marker) == -1
    states.record_marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, end, 2_000,
        committed=marker.committed,
    )  # fmt: skip


def test_a_group_that_fails_elsewhere_is_answered_once(world):
    """Its gateway may have answered it, or taken it back; here it still has a place."""
    world.spend(300)
    group = AppendGroup(TOPIC, 0, EPOCH, 1, DEFAULT_INSTANCE, None)
    sink = Sink()
    group.batches, group.sinks, group.indexes = [batch(0)], [sink], [0]
    world.node.plane.append([group])
    world.node.plane.held.end()
    assert sink.codes == {0: ELSEWHERE}
    assert isinstance(sink.results[0][2], Failure)
    world.advance(1_000)
    assert len(sink.results) == 1
