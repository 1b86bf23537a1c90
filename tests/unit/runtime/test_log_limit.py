"""Log lines caused by clients: ten per second and name, none twice a minute, values cut."""

import pytest

from highwater.runtime.log_limit import (
    LEFT_OUT_EVENT,
    LINES_PER_WINDOW,
    LINES_REMEMBERED,
    REPEAT_MS,
    VALUE_CHARS_MAX,
    VALUE_ITEMS_MAX,
    WINDOW_MS,
    LogLimit,
)


class Log:
    def __init__(self):
        self.now_ms = 5_000
        self.limit = LogLimit(lambda: self.now_ms)
        self.lines = []

    def line(self, event, **values):
        self.lines.append((event, values))

    def write(self, event="refused", **values):
        self.limit.write(self.line, event, **values)

    @property
    def events(self):
        return [event for event, _ in self.lines]


@pytest.fixture
def log():
    return Log()


def test_a_second_has_ten_lines_and_the_next_says_how_many_were_left_out(log):
    for n in range(1000):
        log.write(n=n)
    assert log.lines == [("refused", {"n": n}) for n in range(LINES_PER_WINDOW)]
    log.now_ms += WINDOW_MS - 1
    log.write(n=1000)
    assert len(log.lines) == LINES_PER_WINDOW
    log.now_ms += 1
    log.lines.clear()
    log.write(n=1001)
    left_out = {"of": "refused", "lines": 1001 - LINES_PER_WINDOW, "within_ms": WINDOW_MS}
    assert log.lines == [(LEFT_OUT_EVENT, left_out), ("refused", {"n": 1001})]


def test_ten_lines_a_second_are_all_written_and_nothing_is_counted(log):
    for second in range(5):
        for n in range(LINES_PER_WINDOW):
            log.write(n=(second, n))
        log.now_ms += WINDOW_MS
    assert log.events == ["refused"] * 5 * LINES_PER_WINDOW


def test_names_and_kinds_have_limits_of_their_own(log):
    for n in range(50):
        log.write("refused", n=n)
        log.write("failed", n=n)
        log.write("failed", kind="unforeseen", n=n)
    assert log.events.count("refused") == LINES_PER_WINDOW
    assert log.events.count("failed") == 2 * LINES_PER_WINDOW
    assert all(set(values) == {"n"} for _, values in log.lines)


def test_the_count_of_a_flood_that_ended_comes_with_another_name(log):
    log.write("failed")
    for n in range(50):
        log.write("refused", n=n)
    log.now_ms += 3 * WINDOW_MS
    log.lines.clear()
    log.write("failed", n=50)
    log.write("refused", n=50)
    assert log.events == [LEFT_OUT_EVENT, "failed", "refused"]
    assert log.lines[0][1] == {"of": "refused", "lines": 40, "within_ms": 3 * WINDOW_MS}


def test_values_are_cut(log):
    error = ValueError("x" * 500)
    full = "f" * VALUE_CHARS_MAX
    log.write(client="c" * 10_000, full=full, ids=["i" * 10_000] * 5_000, n=7, exc_info=error)
    [(_, values)] = log.lines
    assert values["client"] == "c" * (VALUE_CHARS_MAX - 1) + "…"
    assert values["full"] == full
    assert len(values["ids"]) == VALUE_ITEMS_MAX + 1
    assert {len(one) for one in values["ids"][:-1]} == {VALUE_CHARS_MAX}
    assert values["ids"][-1] == f"and {5_000 - VALUE_ITEMS_MAX} more"
    assert values["n"] == 7
    assert values["exc_info"] is error


def test_a_line_that_is_repeated_is_written_once_a_minute_with_their_number(log):
    for _ in range(661):  # As a client wrote that asked twice a second until it was stopped.
        log.write("not_served", client="c", ids=["payments"])
        log.now_ms += 500
    assert log.events == ["not_served"] * 6
    counts = [values.get("repeated") for _, values in log.lines]
    assert counts == [None, 119, 119, 119, 119, 119]


def test_other_values_and_other_errors_are_other_lines(log):
    for _ in range(3):
        log.write(client="a")
        log.write(client="b")
        log.write("failed", exc_info=KeyError("a"))
        log.write("failed", exc_info=KeyError("b"))
        log.write("failed", kind="unforeseen", exc_info=KeyError("b"))
    assert log.events == ["refused"] * 2 + ["failed"] * 3


def test_repetitions_do_not_take_the_place_of_other_lines(log):
    for _ in range(100):
        log.write(n=0)
    log.write(n=1)
    assert log.lines == [("refused", {"n": 0}), ("refused", {"n": 1})]
    log.now_ms += REPEAT_MS
    log.write(n=1)
    log.write(n=0)
    assert log.lines[2:] == [("refused", {"n": 1}), ("refused", {"n": 0, "repeated": 99})]


def test_the_oldest_lines_are_forgotten(log):
    events = [f"event-{n}" for n in range(LINES_REMEMBERED + 1)]
    for event in (*events, events[0], events[-1]):
        log.write(event)
    assert log.events == [*events, events[0]]
