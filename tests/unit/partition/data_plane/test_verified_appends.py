"""Groups that wait for the transaction coordinator: their order, answers that come late, and limits."""

import pytest

from highwater.hop.append import TransactionalWrite
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.partition.core import verifications
from highwater.partition.data_plane import verified_appends as module
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC, Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, image_says
from tests.unit.partition.data_plane.transactions import Producer

ADDS = TransactionalWrite("payments", adds_partition=True)
ASKS = TransactionalWrite("payments", adds_partition=False)
OTHER = TransactionalWrite("orders", adds_partition=True)


class Coordinator:
    """Keeps what it was asked; the test answers."""

    def __init__(self, turn) -> None:
        self.asked: list = []
        self._open: list = []
        self._turn = turn

    def verify(self, writer, done):
        self.asked.append(writer)
        self._open.append(done)

    def answer(self, code: int = 0, at: int = 0, *, turn: bool = True) -> None:
        self._open.pop(at)(code)
        if turn:
            self._turn()

    @property
    def open(self) -> int:
        return len(self._open)


class Fixture:
    def __init__(self, directory) -> None:
        self.node = Node(directory)
        self.coordinator = Coordinator(lambda: self.pass_time(0))
        self.node.plane.verify_by(self.coordinator)
        self.replica = self.node.add()
        self.told: list = []
        """Sequences, in the order of their answers."""

    def batch(self, sequence=0, *, producer_id=7, epoch=0):
        return make_batch(
            timestamps=(self.node.clock.now_ms,),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def write(self, *sequences, transaction=ADDS, deadline_ms=0, producer_id=7, epoch=0) -> Sink:
        return self.send(
            *(self.batch(one, producer_id=producer_id, epoch=epoch) for one in sequences),
            transaction=transaction,
            deadline_ms=deadline_ms,
        )

    def send(self, *batches, transaction=ADDS, deadline_ms=0) -> Sink:
        sink = Sink()
        group = group_of(
            *batches, sink=sink, epoch=EPOCH, transaction=transaction, deadline_ms=deadline_ms
        )
        self.node.plane.append([group])
        return sink

    def end(self, **spec):
        assert Producer(self.node).end(commit=False, **spec) == [0]

    def pass_time(self, ms):
        self.node.clock.now_ms += ms
        due = [timer for timer in self.node.timers if timer.seconds * 1000 <= ms]
        self.node.timers = [timer for timer in self.node.timers if timer not in due]
        for timer in due:
            timer.callback()


@pytest.fixture
def f(tmp_path):
    return Fixture(tmp_path)


def test_the_first_batch_of_a_transaction_waits_for_the_coordinator(f):
    first = f.write(0)
    assert first.results == []
    (asked,) = f.coordinator.asked
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("payments", 7, 0)
    assert (asked.topic, asked.partition, asked.adds_partition) == ("orders", 0, True)
    f.coordinator.answer()
    assert first.codes == {0: 0}
    assert f.write(1, transaction=ASKS).codes == {0: 0}, "its transaction is open"
    assert len(f.coordinator.asked) == 1
    assert len(f.replica.verified) == 0


def test_later_groups_of_the_id_wait_behind_it_and_others_pass(f):
    first, second = f.write(0), f.write(1, 2)
    ordinary = f.node.append(make_batch(timestamps=(f.node.clock.now_ms,)))
    other = f.write(0, transaction=OTHER, producer_id=8)
    assert ordinary.codes == {0: 0}
    f.coordinator.answer(at=1)
    assert other.codes == {0: 0}
    assert (first.results, second.results) == ([], [])
    f.coordinator.answer()
    assert (first.offsets, second.offsets) == ({0: 2}, {0: 3, 1: 4})
    assert len(f.coordinator.asked) == 2


def test_many_groups(f):
    sinks = [
        f.write(0, transaction=TransactionalWrite(f"id-{n}", True), producer_id=n)
        for n in range(300)
    ]
    sinks += [
        f.write(1, transaction=TransactionalWrite(f"id-{n}", True), producer_id=n)
        for n in range(300)
    ]
    assert len(f.replica.verified) == 600
    while f.coordinator.open:
        f.coordinator.answer(at=-1)
    assert all(sink.codes == {0: 0} for sink in sinks)
    assert len(f.coordinator.asked) == 300
    assert len(f.replica.verified) == 0


def test_what_is_granted_in_one_turn_is_one_write(f, monkeypatch):
    writes = []
    append = f.replica.append
    monkeypatch.setattr(
        type(f.replica),
        "append",
        lambda _, group: (writes.append(len(group.batches)), append(group)),
    )
    sinks = [
        f.write(0, transaction=TransactionalWrite(f"id-{n}", True), producer_id=n) for n in range(3)
    ]
    f.coordinator.answer(ErrorCode.PRODUCER_FENCED, turn=False)
    for _ in range(2):
        f.coordinator.answer(turn=False)
    assert [sink.codes for sink in sinks] == [{0: ErrorCode.INVALID_PRODUCER_EPOCH}, {}, {}]
    assert len(f.replica.verified) == 2
    f.pass_time(0)
    assert writes == [2]
    assert [sink.offsets for sink in sinks[1:]] == [{0: 0}, {0: 1}]
    assert len(f.replica.verified) == 0


def test_a_producers_next_group_does_not_overtake_a_granted_one(f):
    first = f.write(0)
    other = f.write(0, transaction=OTHER, producer_id=8)
    f.coordinator.answer(turn=False)
    f.coordinator.answer(turn=False)
    second = f.write(1)
    assert (first.offsets, other.offsets, second.offsets) == ({0: 0}, {0: 1}, {0: 2})
    f.pass_time(0)
    assert f.replica.log.log_end_offset == 3


def test_a_marker_takes_back_what_was_granted_and_not_appended(f):
    late = f.write(0)
    f.coordinator.answer(turn=False)
    f.end()
    f.pass_time(0)
    assert late.codes == {0: ErrorCode.INVALID_TXN_STATE}
    assert f.replica.log.log_end_offset == 1, "the marker"


def test_the_end_of_leadership_answers_what_was_granted(f):
    first = f.write(0)
    f.coordinator.answer(turn=False)
    follow(f.replica, 2, EPOCH + 1)
    assert first.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    f.pass_time(0)
    assert (f.replica.log.log_end_offset, len(f.replica.verified), f.node.bugs) == (0, 0, [])


@pytest.mark.parametrize(
    ("transaction", "code"), [(ADDS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (ASKS, 0)]
)
def test_a_batch_whose_predecessors_are_lost_does_not_begin_a_transaction(f, transaction, code):
    """With an epoch for each transaction, its sequences begin at 0 (transaction.version 2)."""
    later = f.write(5, transaction=transaction)
    f.coordinator.answer()
    assert later.codes == {0: code}


@pytest.mark.parametrize("transaction", [ADDS, ASKS])
def test_a_marker_between_answer_and_append(f, transaction):
    late = f.write(0, transaction=transaction)
    f.end()
    f.coordinator.answer()
    assert late.codes == {0: ErrorCode.INVALID_TXN_STATE}
    assert f.replica.log.log_end_offset == 1, "the marker"


def test_a_producer_that_made_room_for_others_sends_again(f, monkeypatch):
    monkeypatch.setattr(verifications, "PRODUCERS_MAX", 1)
    first = f.write(0)
    f.write(0, producer_id=8, transaction=OTHER)
    f.coordinator.answer()
    assert first.codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
    again = f.write(0)
    f.coordinator.answer(at=1)
    assert again.codes == {0: 0}


def test_the_marker_of_the_transaction_before(f):
    """The client bumps its epoch, and its next batch comes before the last marker (KIP-890)."""
    first = f.write(0)
    f.coordinator.answer()
    following = f.write(0, epoch=1)
    f.end(epoch=1, version=2)
    f.coordinator.answer()
    assert (first.codes, following.codes) == ({0: 0}, {0: 0})


def test_a_batch_that_is_sent_again_after_the_abort(f):
    f.write(0)
    f.coordinator.answer()
    f.end(epoch=1, version=2)
    new = f.write(1)
    f.coordinator.answer(ErrorCode.PRODUCER_FENCED)
    assert new.codes == {0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert f.replica.log.log_end_offset == 2


def test_a_batch_that_is_in_the_log_asks_nobody(f):
    f.write(0)
    f.coordinator.answer()
    f.end()
    again = f.write(0)
    assert again.offsets == {0: 0}
    assert f.coordinator.open == 0


def test_refused_and_then_the_next_group(f):
    first, second = f.write(0, transaction=ASKS), f.write(1, transaction=ASKS)
    f.coordinator.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert first.codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
    assert second.results == []
    f.coordinator.answer()
    assert second.codes == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}, "the first comes again"
    assert f.write(0, transaction=ASKS).codes == {0: 0}
    assert f.write(1, transaction=ASKS).codes == {0: 0}


def test_the_coordinator_goes_away_and_comes_back(f):
    assert f.write(0).results == []
    f.coordinator.answer(ErrorCode.NETWORK_EXCEPTION)
    again = f.write(0)
    f.coordinator.answer()
    assert again.codes == {0: 0}


def test_a_transaction_that_has_not_ended_is_asked_for_again(f):
    waits = f.write(0)
    f.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert (f.coordinator.open, waits.results) == (0, [])
    f.end(epoch=0)
    f.pass_time(20)
    f.coordinator.answer()
    assert waits.codes == {0: 0}


def test_it_is_asked_for_again_only_for_a_while(f):
    waits = f.write(0)
    for _ in range(5):
        f.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        f.pass_time(20)
    f.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert waits.codes == {0: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_older_clients_send_it_again_themselves(f):
    waits = f.write(0, transaction=ASKS)
    f.coordinator.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert waits.codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS}


def test_a_fenced_producers_batch_in_the_same_group(f):
    sink = f.send(f.batch(9, epoch=0), f.batch(0, epoch=1))
    f.coordinator.answer(ErrorCode.PRODUCER_FENCED)
    assert sink.results == []
    f.coordinator.answer()
    assert sink.codes == {0: ErrorCode.INVALID_TXN_STATE, 1: 0}


def test_the_end_of_leadership_answers_all(f):
    first, second = f.write(0), f.write(1)
    follow(f.replica, 2, EPOCH + 1)
    assert first.codes == second.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    f.coordinator.answer()
    assert len(f.replica.log.producers.states.verifications) == 0
    assert (f.replica.log.log_end_offset, f.node.bugs) == (0, [])


def test_a_leader_that_resigns_and_resumes(f):
    image_says(f.replica, leader=1, epoch=EPOCH, replicas=(1, 2), isr=(1, 2))
    first = f.write(0)
    assert f.replica.hold_appends()
    second = f.write(1)
    f.coordinator.answer()
    assert (first.results, second.results) == ([], [])
    f.replica.resume()
    assert f.replica.log.log_end_offset == 2
    follow(f.replica, 2, EPOCH + 1)


def test_deadlines(f):
    now = f.node.clock.monotonic_ms()
    first, second = f.write(0, deadline_ms=now + 300), f.write(1)
    f.pass_time(500)
    assert first.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    f.coordinator.answer()
    assert second.codes == {0: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert len(f.replica.verified) == 0


def test_an_answer_about_a_group_that_has_expired_is_none_about_the_next_one(f):
    late = f.write(0, deadline_ms=f.node.clock.now_ms + 100)
    following = f.write(0, epoch=1)
    f.pass_time(1_000)
    assert late.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    f.coordinator.answer()
    assert following.results == []
    assert f.coordinator.asked[-1].producer_epoch == 1
    f.coordinator.answer()
    assert following.codes == {0: 0}


def test_limits(f, monkeypatch):
    monkeypatch.setattr(module, "GROUPS_MAX", 1)
    first, second = f.write(0), f.write(1)
    assert (first.results, second.codes) == ([], {0: ErrorCode.REQUEST_TIMED_OUT})
    monkeypatch.setattr(module, "GROUPS_MAX", 9)
    monkeypatch.setattr(module, "BYTES_MAX", 100)
    assert f.write(1).codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    f.coordinator.answer()
    monkeypatch.undo()
    assert f.write(1).codes == {0: 0}


def test_the_coordinator_of_the_groups_instance_is_asked(f):
    group = group_of(f.batch(), sink=Sink(), epoch=EPOCH, transaction=ADDS)
    group.instance = InstanceId("team")
    f.node.plane.append([group])
    (writer,) = f.coordinator.asked
    assert (writer.instance, writer.transactional_id) == ("team", ADDS.transactional_id)


def test_an_old_epoch_asks_nobody(f):
    sink = Sink()
    group = group_of(f.batch(), sink=sink, epoch=EPOCH - 1, transaction=ADDS)
    f.node.plane.append([group])
    assert sink.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert f.coordinator.asked == []
    assert (TOPIC, 0) in f.node.plane.replicas
