"""Fetches that wait: bytes, time or a change of leader answers them, exactly once."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from highwater.hop.append import OUTCOME_NOT_APPENDED
from highwater.hop.fetch import SMALL_RANGE
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane import plane
from highwater.partition.data_plane.ranges import SegmentRange
from highwater.partition.storage.errors import CorruptLogError, LogDirFailure
from tests.support.log_batches import forget_positions, make_batch
from tests.unit.partition.data_plane.node import EPOCH, Memory, Node, ask
from tests.unit.partition.data_plane.roles import follow, lead


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


MEMORY = pytest.mark.parametrize("memory", [None, Memory()], ids=["ranges", "bytes"])


def release(*fetches):
    for fetched in fetches:
        for result in fetched.results:
            result.release()


def test_an_append_answers_a_fetch_that_waits_at_the_log_end(node):
    node.add()
    node.add(1)
    fetched = node.fetch(ask(0), ask(0, 1))
    assert fetched.answers == 0
    assert node.plane.waiting_fetches == 1
    (timer,) = node.timers
    assert timer.seconds == 0.5
    batch = make_batch()
    node.append(batch, partition=1)
    assert fetched.sizes == [0, len(batch)]
    assert node.plane.waiting_fetches == 0
    assert timer.cancelled
    assert node.plane.fetched_bytes == len(batch)
    timer.callback()
    assert fetched.answers == 1
    release(fetched)


@MEMORY
def test_a_fetch_does_not_wait_if_its_answer_is_full(node, memory):
    """Only whole batches are sent, so a full answer may have fewer bytes than min.bytes."""
    node.add()
    size = len(make_batch())
    node.append(make_batch(), make_batch(), make_batch())
    full = {"min_bytes": 2 * size + 5, "max_bytes": 2 * size + 5, "memory": memory}
    assert node.fetch(ask(0), **full).sizes == [2 * size]
    by_partition = ask(0, max_bytes=2 * size + 5)
    assert node.fetch(by_partition, min_bytes=5 * size, memory=memory).sizes == [2 * size]
    all_of_it = node.fetch(ask(1), **full)
    assert all_of_it.answers == 0, "two are there, and nothing behind them"
    node.append(make_batch())
    assert all_of_it.sizes == [2 * size]
    assert node.plane.waiting_fetches == 0


@MEMORY
def test_a_fetch_does_not_wait_at_the_end_of_an_older_segment(node, memory):
    """As in Kafka, whose DelayedFetch is complete if the offset is in an older segment."""
    replica = node.add()
    node.append(make_batch())
    replica.log.roll()
    node.append(make_batch())
    fetched = node.fetch(ask(0), min_bytes=1 << 10, memory=memory)
    assert fetched.sizes == [len(make_batch())]


def test_a_fetch_waits_for_min_bytes_over_all_its_partitions(node):
    node.add()
    node.add(1)
    size = len(make_batch())
    node.append(make_batch())
    fetched = node.fetch(ask(0), ask(0, 1), min_bytes=3 * size)
    node.append(make_batch())
    assert fetched.answers == 0
    node.append(make_batch(), partition=1)
    assert fetched.sizes == [2 * size, size]
    release(fetched)


def test_a_timeout_answers_with_the_bytes_that_are_there(node):
    node.add()
    node.append(make_batch())
    fetched = node.fetch(ask(0), min_bytes=1 << 20)
    assert fetched.answers == 0
    node.timers[0].callback()
    assert fetched.sizes == [len(make_batch())]
    assert node.plane.waiting_fetches == 0
    node.append(make_batch())
    assert fetched.answers == 1
    release(fetched)


@pytest.mark.parametrize("spec", [{"max_wait_ms": 0}, {"min_bytes": 0}, {"max_wait_ms": -1}])
def test_a_fetch_that_must_not_wait_is_answered_at_once(node, spec):
    node.add()
    assert node.fetch(ask(0), **spec).sizes == [0]
    assert node.timers == []


def test_a_fetch_of_nothing_is_answered_at_once(node):
    assert node.fetch().results == []


def test_an_error_of_one_partition_answers_the_whole_fetch(node):
    node.add()
    assert node.fetch(ask(0), ask(99)).codes == [0, ErrorCode.OFFSET_OUT_OF_RANGE]
    assert node.fetch(ask(0), ask(0, 5)).codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_fetch_may_name_a_partition_twice(node):
    node.add()
    fetched = node.fetch(ask(0), ask(0), min_bytes=2 * len(make_batch()))
    node.append(make_batch())
    assert fetched.answers == 0
    node.append(make_batch())
    assert fetched.answers == 1
    assert node.plane.waiting_fetches == 0
    release(fetched)


def test_a_cancelled_fetch_gets_no_answer(node):
    replica = node.add()
    fetched = node.fetch(ask(0))
    node.plane.cancel_fetch(fetched.work)
    node.plane.cancel_fetch(fetched.work)
    assert node.plane.waiting_fetches == 0
    assert node.timers[0].cancelled
    node.append(make_batch())
    node.timers[0].callback()
    assert fetched.answers == 0
    assert replica.waiters.fetches == {}


def test_cancelling_an_answered_fetch_does_nothing(node):
    node.add()
    fetched = node.fetch(ask(0), max_wait_ms=0)
    node.plane.cancel_fetch(fetched.work)
    assert fetched.answers == 1
    assert node.plane.waiting_fetches == 0


def test_a_change_of_leader_answers_all_fetches(node):
    replica, other = node.add(), node.add(1)
    one, both = node.fetch(ask(0)), node.fetch(ask(0, 1), ask(0))
    elsewhere = node.fetch(ask(0, 1))
    follow(replica, 2, EPOCH + 1)
    assert one.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert both.codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert elsewhere.answers == 0
    assert len(other.waiters.fetches) == 1
    assert node.plane.waiting_fetches == 1


@MEMORY
def test_a_waiting_fetch_pins_no_segment(node, memory):
    replica = node.add()
    node.append(make_batch())
    fetched = node.fetch(ask(0), min_bytes=1 << 20, memory=memory)
    assert (fetched.work.results, replica.log.extent.active.pins) == ([], 0)
    replica.log.close(clean=False)
    assert fetched.answers == 0
    node.plane.cancel_fetch(fetched.work)


def kinds(fetched):
    return [type(result.records) for result in fetched.results]


def reads_into_memory(replica):
    """Gets an entry for each from now on."""
    files = replica.log._place.environment.filesystem
    read, preadv = [], files.preadv
    files.preadv = lambda *args: read.append(1) or preadv(*args)
    return read


@pytest.mark.parametrize("end", ["append", "timer"])
def test_a_fetch_of_much_is_read_into_memory_when_it_ends(node, end):
    """Most of what it finds at first would be thrown away, because a waiting fetch holds nothing."""
    replica = node.add()
    node.append(make_batch())
    read = reads_into_memory(replica)
    fetched = node.fetch(ask(0), min_bytes=SMALL_RANGE + 1, memory=Memory())
    assert (fetched.answers, read) == (0, [])
    if end == "timer":
        node.timers[0].callback()
        assert kinds(fetched) == [bytearray]
    else:
        node.append(make_batch(value=b"x" * (SMALL_RANGE - 200)))
        assert fetched.answers == 0
        replica.log.roll()
        node.append(make_batch(value=b"x" * 200))
        assert fetched.sizes[0] < SMALL_RANGE, "the rest is in the next segment"
        assert kinds(fetched) == [bytearray]
    assert read == [1]


def test_a_fetch_of_little_is_read_into_memory_at_once(node):
    replica = node.add()
    node.append(make_batch())
    read = reads_into_memory(replica)
    for spec in ({"min_bytes": len(make_batch())}, {"min_bytes": 1 << 20, "max_wait_ms": 0}):
        assert kinds(node.fetch(ask(0), memory=Memory(), **spec)) == [bytearray]
    assert read == [1, 1]
    waiting = node.fetch(ask(0), min_bytes=len(make_batch()) + 1, memory=Memory())
    assert (waiting.answers, waiting.work.results) == (0, []), "nothing is held"


def test_memory_that_becomes_scarce_counts_when_the_fetch_ends(node):
    node.add()
    memory = Memory()
    fetched = node.fetch(ask(0), memory=memory)
    memory.replies_scarce = True
    node.append(make_batch())
    assert kinds(fetched) == [SegmentRange]
    release(fetched)


def test_only_the_first_records_of_a_fetch_are_read_into_memory(node, monkeypatch):
    size = len(make_batch())
    monkeypatch.setattr(plane, "COPIED_BYTES_MAX", 2 * size)
    for partition in range(4):
        node.add(partition)
        node.append(make_batch(), partition=partition)
    fetched = node.fetch(*[ask(0, partition) for partition in range(4)], memory=Memory())
    assert kinds(fetched) == [bytearray, bytearray, SegmentRange, SegmentRange]
    release(fetched)


@pytest.mark.parametrize(
    ("error", "log_failures", "bugs"),
    [
        (LogDirFailure("x", OSError(5, "I/O")), 1, 0),
        (CorruptLogError("x"), 0, 1),
        (ZeroDivisionError(), 0, 1),
    ],
)
def test_a_failed_read_is_an_error_of_its_partition(node, error, log_failures, bugs):
    replica = node.add()
    node.append(make_batch())
    node.add(1)
    node.append(make_batch(), partition=1)

    class Unreadable:
        def read(self, *_args, **_kwargs):
            raise error

    extent = SimpleNamespace(start_offset=0, end_offset=1)
    replica.log = SimpleNamespace(extent=extent, reader=Unreadable())
    fetched = node.fetch(ask(0), ask(0, 1))
    assert fetched.codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert fetched.sizes[1] > 0
    assert replica.failed
    assert (len(node.log_failures), len(node.bugs)) == (log_failures, bugs)
    release(fetched)


def damaged(node, *, known):
    """A replica with a closed segment of which records 1 and 2 are damaged; `known`: whether
    `on_damage` deals with the damage.
    """
    replica = node.add()
    for _ in range(3):
        node.append(make_batch())
    segment = replica.log.extent.active
    replica.log.roll()
    with Path(segment.file).open("r+b") as file:
        file.seek(segment.size // 3 + 16)
        file.write(b"\xff")
    forget_positions(replica.log)
    told = []

    def on_damage(replica, error):
        told.append(error)
        if known:
            replica.log.lost.add(error.first, error.end)
        return known

    node.plane._on_damage = on_damage
    return replica, told


def test_after_damage_is_found_only_damaged_records_are_refused(node):
    replica, told = damaged(node, known=True)
    for offset in (2, 1):
        assert node.fetch(ask(offset)).codes == [ErrorCode.CORRUPT_MESSAGE]
    assert [(error.first, error.end) for error in told] == [(1, 3)]
    before = node.fetch(ask(0))
    assert (before.codes, before.sizes) == ([0], [replica.log.extent.all[0].size // 3])
    release(before)
    assert node.append(make_batch()).codes == {0: 0}
    behind = node.fetch(ask(3))
    assert behind.sizes[0] > 0
    release(behind)
    assert not replica.failed
    assert node.bugs == []


def test_a_fetch_of_records_that_may_be_repaired_soon_waits(node):
    """librdkafka and Java report CORRUPT_MESSAGE to their applications, but retry on this code."""
    replica, _ = damaged(node, known=True)
    node.plane._may_heal_soon = lambda asked: asked is replica
    assert node.fetch(ask(1), max_wait_ms=0).codes == [ErrorCode.OFFSET_NOT_AVAILABLE]
    waiting = node.fetch(ask(1), max_wait_ms=500)
    assert waiting.work.waiting is not None
    with Path(replica.log.extent.all[0].file).open("r+b") as file:
        file.seek(replica.log.extent.all[0].size // 3 + 16)
        file.write(b"\x02")
    replica.log.lost.healed(1, 3)
    replica.waiters.caught_up()
    node.turn()
    assert (waiting.codes, waiting.sizes) == ([0], [2 * replica.log.extent.all[0].size // 3])
    release(waiting)


def test_records_before_the_damage_are_read_at_once(node):
    replica, _ = damaged(node, known=True)
    size = replica.log.extent.all[0].size
    fetched = node.fetch(ask(0), max_bytes=size - 1)
    assert (fetched.codes, fetched.sizes) == ([0], [size // 3])
    release(fetched)


def test_damage_that_is_not_handled_takes_the_partition_offline(node):
    replica, told = damaged(node, known=False)
    assert node.fetch(ask(2)).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert replica.failed
    assert (len(told), len(node.bugs)) == (1, 1)


def test_a_fetch_is_refused_by_a_replica_that_must_be_fetched_again(node):
    damaged(node, known=False)
    node.plane._on_damage = lambda replica, _error: replica.fail() or True
    assert node.fetch(ask(2)).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.bugs == []


class Waiting(RuleBasedStateMachine):
    """Random fetches, appends, expiries, cancellations and changes of role in three partitions."""

    @initialize()
    def start(self):
        import tempfile
        from pathlib import Path

        self.directory = tempfile.TemporaryDirectory()
        self.node = Node(Path(self.directory.name))
        self.replicas = [self.node.add(n) for n in range(3)]
        self.epochs = [EPOCH] * 3
        self.fetches = []
        self.cancelled = []

    @rule(n=st.integers(0, 2), count=st.integers(1, 3))
    def append(self, n, count):
        self.node.append(*[make_batch() for _ in range(count)], partition=n, epoch=self.epochs[n])

    @rule(
        places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3),
        min_batches=st.integers(0, 4),
        max_wait_ms=st.sampled_from([0, 500]),
        memory=st.sampled_from([None, Memory()]),
    )
    def fetch(self, places, min_batches, max_wait_ms, memory):
        asked = []
        for partition, back in places:
            end = self.replicas[partition].log.log_end_offset if partition < 3 else 0
            asked.append(ask(max(0, end - back), partition))
        self.fetches.append(
            self.node.fetch(
                *asked,
                min_bytes=min_batches * len(make_batch()),
                max_wait_ms=max_wait_ms,
                memory=memory,
            )
        )

    @rule(data=st.data())
    def expire(self, data):
        timers = [t for t in self.node.timers if not t.cancelled]
        if timers:
            timer = data.draw(st.sampled_from(timers))
            self.node.timers.remove(timer)
            timer.callback()

    @rule(data=st.data())
    def cancel(self, data):
        if self.fetches:
            fetched = data.draw(st.sampled_from(self.fetches))
            self.node.plane.cancel_fetch(fetched.work)
            if not fetched.answers:
                self.fetches.remove(fetched)
                self.cancelled.append(fetched)

    @rule(n=st.integers(0, 2))
    def change_leader(self, n):
        self.epochs[n] += 1
        if self.replicas[n].leading:
            follow(self.replicas[n], 9, self.epochs[n])
        else:
            lead(self.replicas[n], self.epochs[n])

    @invariant()
    def waiting_is_counted(self):
        if hasattr(self, "node"):
            waiting = [f for f in self.fetches if not f.answers]
            assert self.node.plane.waiting_fetches == len(waiting)
            assert all(f.answers <= 1 for f in self.fetches)
            assert all(f.answers == 0 for f in self.cancelled)
            noted = {wait for r in self.replicas for wait in r.waiters.fetches}
            assert noted == {f.work.waiting for f in waiting}

    def teardown(self):
        if not hasattr(self, "node"):
            return
        for timer in list(self.node.timers):
            if not timer.cancelled:
                timer.callback()
        assert self.node.plane.waiting_fetches == 0
        for fetched in self.fetches:
            assert fetched.answers == 1
            release(fetched)
        assert all(r.waiters.fetches == {} for r in self.replicas)
        for replica in self.replicas:
            replica.log.close(clean=False)
        self.directory.cleanup()


TestWaiting = Waiting.TestCase
TestWaiting.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ((2, EPOCH + 1), (2, EPOCH + 1)),
        ((-1, EPOCH + 1), (-1, EPOCH + 1)),
        # As new as the sender's image: this node may be about to make the replica.
        ((1, EPOCH), (-1, -1)),
        ((-1, -1), (-1, -1)),
    ],
)
def test_without_a_replica_appends_hear_of_a_newer_epoch(node, known, told):
    """A gateway that does not know it yet then keeps them, also if it sent several messages."""
    node.plane._leader_elsewhere = lambda topic_id, partition: known
    sink = node.append(make_batch(), partition=5)
    assert sink.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    ((_, _, failure),) = sink.results
    assert (failure.leader, failure.leader_epoch) == told
    assert failure.outcome == OUTCOME_NOT_APPENDED
