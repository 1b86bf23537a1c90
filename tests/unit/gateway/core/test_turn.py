"""One loop turn: work first, then writes, and a failure loses nothing."""

import pytest

from highwater.gateway.core.turn import SESSION_SHARE_MIN, SESSION_STARTS_MAX, STARTS_MAX, Turn


class Loop:
    def __init__(self):
        self.soon = []

    def run(self):
        for _ in range(len(self.soon)):
            self.soon.pop(0)()


class Writer:
    def __init__(self, name, done):
        self.name, self.done = name, done

    def flush(self):
        self.done.append(self.name)


def test_all_work_comes_before_all_writes_in_one_callback():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)
    turn.flush_later(Writer("write a", done))
    turn.defer(lambda: done.append("work 1"))
    turn.flush_later(Writer("write b", done))
    turn.defer(lambda: done.append("work 2"))
    assert len(loop.soon) == 1
    loop.run()
    assert done == ["work 1", "work 2", "write a", "write b"]
    assert loop.soon == []


def test_work_that_writes_cause_is_done_in_the_same_turn():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)

    class Starter(Writer):
        def flush(self):
            super().flush()
            turn.defer(lambda: done.append("work"))
            turn.flush_later(Writer("second", done))

    turn.flush_later(Starter("first", done))
    loop.run()
    assert done == ["first", "work", "second"]


def test_after_a_failure_the_other_work_and_writes_are_done():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)

    def fail():
        raise ZeroDivisionError

    class Broken(Writer):
        def flush(self):
            fail()

    turn.defer(lambda: done.append("work 1"))
    turn.defer(fail)
    turn.defer(lambda: done.append("work 2"))
    turn.flush_later(Writer("a", done))
    turn.flush_later(Broken("b", done))
    turn.flush_later(Writer("c", done))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            loop.run()
    loop.run()
    assert done == ["work 1", "work 2", "a", "c"]
    assert loop.soon == []


def test_work_can_be_settled_before_the_end_of_the_turn():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)
    turn.flush_later(Writer("write", done))
    turn.defer(lambda: turn.defer(lambda: done.append("later")))
    turn.defer(lambda: done.append("work"))
    turn.settle()
    assert done == ["work"]
    loop.run()
    assert done == ["work", "later", "write"]
    turn.settle()
    assert loop.soon == []


def test_a_failure_of_settled_work_is_the_loops_and_the_rest_is_done_with_the_turn():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)

    def fail():
        raise ZeroDivisionError

    turn.defer(fail)
    turn.defer(lambda: done.append("work"))
    turn.settle()
    assert done == []
    end_of_turn, failure = loop.soon
    end_of_turn()
    assert done == ["work"]
    with pytest.raises(ZeroDivisionError):
        failure()


def test_a_turn_can_be_used_again():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)
    for name in "ab":
        turn.flush_later(Writer(name, done))
        loop.run()
    assert done == ["a", "b"]


class Continued:
    """Has more requests than may start."""

    def __init__(self, name, done, turn):
        self.name, self.done, self.turn = name, done, turn

    def go_on(self, starts_max):
        self.done.append((self.name, starts_max))
        self.turn.starts_left -= starts_max
        self.turn.continue_later(self)


def test_continued_sessions_share_a_turn_and_alternate():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)
    served = STARTS_MAX // SESSION_SHARE_MIN
    names = list(range(served + 3))
    for name in names:
        turn.continue_later(Continued(name, done, turn))
    turn.defer(lambda: done.append("work"))
    assert len(loop.soon) == 1
    loop.run()
    assert done == [*[(name, SESSION_SHARE_MIN) for name in names[:-3]], "work"]
    assert turn.starts_left == STARTS_MAX, "for what is read next"
    done.clear()
    loop.run()
    assert [name for name, _ in done] == [*names[-3:], *names[: served - 3]], (
        "first come, first served"
    )


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_few_continued_sessions_start_more_each_but_no_more_than_one_may(count):
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)
    for name in range(count):
        turn.continue_later(Continued(name, done, turn))
    loop.run()
    share = min(SESSION_STARTS_MAX, STARTS_MAX // count)
    assert done == [(name, share) for name in range(count)], "each once"


def test_a_session_that_fails_does_not_stop_the_others():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)

    class Broken(Continued):
        def go_on(self, starts_max):
            raise ZeroDivisionError

    turn.continue_later(Broken("a", done, turn))
    turn.continue_later(Continued("b", done, turn))
    turn.flush_later(Writer("c", done))
    with pytest.raises(ZeroDivisionError):
        loop.run()
    loop.run()
    assert done == [("b", SESSION_STARTS_MAX), "c"]


def test_a_turn_with_reads_only_ends_and_the_next_one_has_its_own_time():
    loop, times = Loop(), iter((5, 9))
    turn = Turn(loop.soon.append, lambda: next(times))
    assert turn.begin() == turn.arrived_ns == 5
    assert len(loop.soon) == 1
    loop.run()
    assert turn.arrived_ns == 0
    assert turn.begin() == turn.arrived_ns == 9
    assert len(loop.soon) == 1


def test_when_flushed_is_called_after_all_writes_even_if_one_fails():
    loop, done = Loop(), []
    turn = Turn(loop.soon.append, lambda: 7)
    turn.when_flushed = lambda now_ns: done.append(f"all at {now_ns}")

    class Broken(Writer):
        def flush(self):
            raise ZeroDivisionError

    turn.flush_later(Writer("a", done))
    turn.flush_later(Writer("b", done))
    loop.run()
    assert done == ["a", "b", "all at 7"]
    turn.flush_later(Broken("c", done))
    with pytest.raises(ZeroDivisionError):
        loop.run()
    assert done[3:] == ["all at 7"]
