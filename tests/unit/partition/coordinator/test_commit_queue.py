from highwater.kafka.records.batch import iter_batches
from highwater.partition.coordinator import commit_queue
from highwater.partition.coordinator.commit_queue import CommitQueue
from tests.unit.partition.coordinator.counter import COUNTERS, Count


class Fixture:
    """A queue on a log that commits when the test says so."""

    def __init__(self, batch_bytes_max: int = 1_000_000, *, caught_up: bool = True) -> None:
        self.now_ms = 0
        self.appended = []
        self.soon = []
        self.later = []
        self.failures = []
        self.told = []
        self.queue = CommitQueue(
            encode=COUNTERS.codec.encode,
            append=lambda batch, done: self.appended.append((batch, done)),
            append_marker=lambda marker, done: self.appended.append((marker, done)),
            next_offset=10,
            batch_bytes_max=batch_bytes_max,
            call_soon=lambda callback: self.soon.append(callback),  # noqa: PLW0108 - `turn` swaps it.
            call_later=lambda seconds, callback: self.later.append((seconds, callback)),
            timeout_ms=100,
            caught_up=caught_up,
            on_failure=self.fail,
            on_committed=lambda size: self.told.append(("bytes", size)),
        )

    def fail(self, error: int) -> None:
        self.failures.append(error)
        self.queue.fail(error)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()

    def add(self, count: int = 1, *, name_size: int = 26) -> None:
        self.queue.add([Count(f"{n}".zfill(name_size), 1) for n in range(count)], 5)

    def add_at_leisure(self) -> None:
        self.queue.add([Count("leisure", 1)], 5, at_leisure=True)

    def after_commit(self, name: str) -> None:
        self.queue.after_commit(lambda error: self.told.append((name, error)), self.now_ms)

    @property
    def counts(self) -> list[int]:
        views = [next(iter_batches(batch)) for batch, _ in self.appended]
        assert all(view.crc_ok() and view.max_timestamp == 5 for view in views)
        return [view.record_count for view in views]


def test_one_batch_per_turn_and_answers_in_order():
    f = Fixture()
    f.after_commit("nothing to wait for")
    f.add(2)
    f.after_commit("a")
    f.add(1)
    f.after_commit("b")
    assert f.appended == []
    f.turn()
    assert f.counts == [3]
    f.after_commit("c")
    assert f.told == [("nothing to wait for", 0)]
    assert not f.queue.idle
    f.appended[0][1](0, 10)
    assert [name for name, _ in f.told[1:4]] == ["a", "b", "c"]
    assert f.queue.idle
    assert f.queue.bytes == 0


def test_records_at_leisure_go_with_the_next_ones():
    f = Fixture()
    f.add_at_leisure()
    f.add_at_leisure()
    f.turn()
    assert f.appended == []
    assert not f.queue.idle
    f.add()
    f.after_commit("next")
    f.turn()
    assert f.counts == [3]
    f.appended[0][1](0, 10)
    assert f.told[0] == ("next", 0)
    assert [seconds for seconds, _ in f.later] == [commit_queue.LINGER_S]


def test_records_at_leisure_do_not_linger_for_ever():
    f = Fixture()
    f.add_at_leisure()
    f.later.pop()[1]()
    f.turn()
    assert f.counts == [1]
    f.add_at_leisure()
    assert len(f.later) == 1, "the next ones get their own time"


def test_what_is_told_after_records_at_leisure_waits_for_them():
    f = Fixture()
    f.add_at_leisure()
    f.after_commit("told")
    f.turn()
    assert f.counts == [1]
    assert f.told == []
    f.appended[0][1](0, 10)
    assert f.told[0] == ("told", 0)
    f.add_at_leisure()
    done = []
    f.queue.when_committed(lambda: done.append("follow-up"))
    f.turn()
    assert (f.counts, done) == ([1, 1], [])
    f.appended[1][1](0, 11)
    assert done == ["follow-up"]


def test_records_at_leisure_do_not_slow_others_down_that_are_queued_already():
    f = Fixture()
    f.add()
    f.add_at_leisure()
    f.turn()
    assert f.counts == [2]
    f.add_at_leisure()
    f.appended[0][1](0, 10)
    assert f.soon == [], "a commit before them does not hurry them"
    f.queue.flush()
    assert f.counts == [2, 1]
    assert [seconds for seconds, _ in f.later] == [commit_queue.LINGER_S]


def test_several_batches_in_flight():
    f = Fixture()
    f.add()
    f.after_commit("first")
    f.turn()
    f.add()
    f.after_commit("second")
    f.turn()
    assert f.counts == [1, 1]
    size = len(f.appended[0][0])
    assert f.queue.bytes == 2 * size
    f.appended[0][1](0, 10)
    assert f.told == [("first", 0), ("bytes", size)]
    f.appended[1][1](0, 11)
    assert f.told[2:] == [("second", 0), ("bytes", size)]


def test_records_gather_while_too_many_batches_are_in_flight(monkeypatch):
    monkeypatch.setattr(commit_queue, "IN_FLIGHT_MAX", 3)
    f = Fixture()
    for number in range(10):
        f.add()
        f.after_commit(f"{number}")
        f.turn()
    assert f.counts == [1, 1, 1]
    f.appended[0][1](0, 10)
    assert f.told[0] == ("0", 0)
    f.turn()
    assert f.counts == [1, 1, 1, 7]
    for number, (_, done) in enumerate(f.appended[1:], start=11):
        done(0, number)
    assert [name for name, error in f.told if name != "bytes"] == [str(n) for n in range(10)]
    assert f.queue.idle
    assert f.soon == []


def test_an_operation_stays_in_one_batch_if_it_fits():
    f = Fixture(batch_bytes_max=450)
    f.add(4)
    f.add(4)
    f.turn()
    assert f.counts == [4, 4]
    assert all(len(batch) <= 450 for batch, _ in f.appended)


def test_an_operation_larger_than_a_batch_is_split():
    f = Fixture(batch_bytes_max=450)
    f.add(20)
    f.after_commit("all")
    f.turn()
    assert sum(f.counts) == 20
    assert len(f.counts) > 2
    offset = 10
    for count, (_, done) in zip(f.counts, f.appended, strict=True):
        assert ("all", 0) not in f.told
        done(0, offset)
        offset += count
    assert ("all", 0) in f.told


def test_single_record_larger_than_the_limit_goes_alone():
    f = Fixture(batch_bytes_max=450)
    f.add(1)
    f.add(1, name_size=1_000)
    f.add(1)
    f.turn()
    assert f.counts == [1, 1, 1]


def test_a_failure_reaches_every_caller_once_and_finishes_the_queue():
    f = Fixture()
    f.add()
    f.after_commit("in flight")
    f.turn()
    f.add()
    f.after_commit("queued")
    f.appended[0][1](19, -1)
    assert f.failures == [19]
    assert f.told == [("in flight", 19), ("queued", 19)]
    f.turn()
    assert len(f.appended) == 1
    f.appended[0][1](0, 10)
    assert len(f.told) == 2


def test_at_offset_gives_the_committed_offset():
    f = Fixture()
    heard = []
    f.queue.at_offset(heard.append)
    assert heard == [10]
    f.add(3)
    f.queue.at_offset(heard.append)
    assert f.counts == [3], "it does not wait for the turn to end"
    f.appended[0][1](0, 10)
    assert heard == [10, 13]
    f.queue.at_offset(heard.append)
    assert heard == [10, 13, 13]


def test_at_offset_stays_silent_on_failure():
    f = Fixture()
    heard = []
    f.add()
    f.queue.at_offset(heard.append)
    f.appended[0][1](6, -1)
    f.queue.at_offset(heard.append)
    assert heard == []


def test_answers_wait_for_what_was_loaded_above_the_high_watermark():
    f = Fixture(caught_up=False)
    heard = []
    f.after_commit("read")
    f.queue.at_offset(heard.append)
    f.add()
    f.after_commit("write")
    f.turn()
    f.appended[0][1](0, 10)
    assert (f.told, heard) == ([], []), "the log commits in order"
    f.queue.catch_up()
    assert [name for name, _ in f.told if name != "bytes"] == ["read", "write"]
    assert heard == [10]
    assert f.queue.idle
    f.queue.catch_up()
    f.after_commit("at once")
    assert f.told[-1] == ("at once", 0)


def test_queue_that_failed_never_catches_up():
    f = Fixture(caught_up=False)
    f.after_commit("read")
    f.queue.fail(16)
    f.queue.catch_up()
    f.after_commit("late")
    assert f.told == [("read", 16), ("late", 16)]


def test_a_caller_that_waits_too_long_gets_an_error_and_the_records_stay():
    f = Fixture()
    assert f.queue.next_deadline_ms() is None
    f.add()
    f.after_commit("first")
    f.turn()
    f.now_ms = 60
    f.after_commit("reader")
    f.add()
    f.after_commit("second")
    f.turn()
    assert (f.queue.next_deadline_ms(), f.queue.waiting) == (100, 3)
    f.queue.expire(99, 15)
    assert f.told == []
    f.queue.expire(100, 15)
    assert f.told == [("first", 15)]
    assert f.queue.next_deadline_ms() == 160
    assert f.failures == []
    f.appended[0][1](0, 10)
    assert [name for name, _ in f.told] == ["first", "reader", "bytes"]
    f.queue.expire(160, 15)
    assert f.told[-1] == ("second", 15)
    f.appended[1][1](0, 11)
    assert f.queue.idle
    assert [error for name, error in f.told if name != "bytes"] == [15, 0, 15]


def test_a_batch_at_an_unexpected_offset_fails_the_queue():
    """A slow disk has written an abandoned batch, which the state does not have."""
    f = Fixture()
    f.add()
    f.after_commit("a")
    f.turn()
    f.appended[0][1](0, 12)
    assert f.failures == [7]
    assert f.told == [("a", 7)]


def test_what_follows_a_commit_waits_for_it_however_late_it_is():
    f = Fixture()
    f.queue.when_committed(lambda: f.told.append("nothing to wait for"))
    f.add()
    f.queue.when_committed(lambda: f.told.append("first"))
    f.turn()
    f.add()
    f.queue.when_committed(lambda: f.told.append("second"))
    f.turn()
    f.now_ms = 10_000
    f.queue.expire(f.now_ms, 7)
    assert f.told == ["nothing to wait for"]
    f.appended[0][1](0, 10)
    assert f.told[1] == "first"
    assert "second" not in f.told
    f.appended[1][1](0, 11)
    assert "second" in f.told


def test_what_follows_a_commit_is_given_up_with_it():
    f = Fixture()
    f.add()
    f.queue.when_committed(lambda: f.told.append("never"))
    f.turn()
    f.appended[0][1](6, -1)
    f.queue.when_committed(lambda: f.told.append("never"))
    assert f.failures == [6]
    assert f.told == []


def test_what_follows_loading_waits_for_what_was_loaded():
    f = Fixture(caught_up=False)
    f.queue.when_committed(lambda: f.told.append("caught up"))
    assert f.told == []
    f.queue.catch_up()
    assert "caught up" in f.told
