"""A limit for log lines that clients can cause: their number per second, their length, repetition.

Clients can send invalid requests as fast as the network carries them, with names as long as a frame.
Others send the same request twice a second until somebody stops them. Lines about them go through a
`LogLimit`; lines that only we cause do not need it.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

LINES_PER_WINDOW: Final = 10
WINDOW_MS: Final = 1000
VALUE_CHARS_MAX: Final = 100
VALUE_ITEMS_MAX: Final = 10
REPEAT_MS: Final = 60_000
"""So long a line is not written again with the same values."""
LINES_REMEMBERED: Final = 1_000
"""Lines whose repetition is noticed; of more, the oldest are forgotten."""
LEFT_OUT_EVENT: Final = "log_lines_left_out"


class WriteLine(Protocol):
    """A logger's method for one level, such as `log.warning`."""

    def __call__(self, event: str, **values: Any) -> Any:
        """Writes one line."""
        ...


class _Window:
    """The count of one kind of line since `started_ms`."""

    __slots__ = ("left_out", "started_ms", "written")

    def __init__(self, started_ms: int) -> None:
        self.started_ms = started_ms
        self.written = 0
        self.left_out = 0


class _Written:
    """A line that was written at `at_ms`, and how often it would have been again."""

    __slots__ = ("at_ms", "repeated")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.repeated = 0


class LogLimit:
    """Counts lines by event name; used on one loop. Event names are constants, so they are few.

    A line that was written with the same values in the last minute is left out; when it is written
    again, its value `repeated` is their number.

    A line `log_lines_left_out` reports how many were left out; it is written before the next line
    of any kind after that second, and not at all if no line follows.
    """

    __slots__ = ("_monotonic_ms", "_windows", "_written")

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._windows: dict[tuple[str, str], _Window] = {}
        self._written: dict[int, _Written] = {}
        """By the hash of event, kind and values; the oldest first."""

    def write(self, line: WriteLine, event: str, *, kind: str = "", **values: Any) -> None:
        """Writes `event`, its values cut, unless it is a repetition or one too many this second.

        `kind` (a constant too) gives rare lines of an event a limit of their own. `exc_info` is not
        cut.
        """
        now_ms = self._monotonic_ms()
        key = (event, kind)
        window = self._windows.get(key)
        if window is None or now_ms - window.started_ms >= WINDOW_MS:
            self._end_windows(line, now_ms)
            window = self._windows[key] = _Window(now_ms)
        if window.written >= LINES_PER_WINDOW:
            window.left_out += 1
            return
        short = {name: _cut(name, value) for name, value in values.items()}
        repeated = self._repetitions(hash((event, kind, _text(short))), now_ms)
        if repeated is None:
            return
        window.written += 1
        if repeated:
            short["repeated"] = repeated
        line(event, **short)

    def _repetitions(self, line: int, now_ms: int) -> int | None:
        """None if the line is to be left out; otherwise how often it has been."""
        before = self._written.get(line)
        if before is not None and now_ms - before.at_ms < REPEAT_MS:
            before.repeated += 1
            return None
        self._written.pop(line, None)
        self._written[line] = _Written(now_ms)
        if len(self._written) > LINES_REMEMBERED:
            del self._written[next(iter(self._written))]
        return 0 if before is None else before.repeated

    def _end_windows(self, line: WriteLine, now_ms: int) -> None:
        """Reports the lines left out in all windows that are over, and forgets these."""
        over = [
            (key, window)
            for key, window in self._windows.items()
            if now_ms - window.started_ms >= WINDOW_MS
        ]
        for key, window in over:
            del self._windows[key]
            if window.left_out:
                line(
                    LEFT_OUT_EVENT,
                    of=key[0],
                    lines=window.left_out,
                    within_ms=now_ms - window.started_ms,
                )


def _text(values: dict[str, Any]) -> str:
    """What makes two lines the same; of an error its words count, and not its traceback."""
    return repr([repr(v)[:VALUE_CHARS_MAX] if n == "exc_info" else v for n, v in values.items()])


def _cut(name: str, value: Any) -> Any:
    if name == "exc_info":
        return value
    if isinstance(value, str):
        return value if len(value) <= VALUE_CHARS_MAX else value[: VALUE_CHARS_MAX - 1] + "…"
    if isinstance(value, list | tuple):
        items = [_cut("", item) for item in value[:VALUE_ITEMS_MAX]]
        more = len(value) - len(items)
        return [*items, f"and {more} more"] if more else items
    return value
