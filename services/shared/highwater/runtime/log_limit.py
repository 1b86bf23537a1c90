"""A limit for log lines that clients can cause: their number per second and their length.

Clients can send invalid requests as fast as the network carries them, with names as long as a frame.
Lines about them go through a `LogLimit`; lines that only we cause do not need it.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

LINES_PER_WINDOW: Final = 10
WINDOW_MS: Final = 1000
VALUE_CHARS_MAX: Final = 100
VALUE_ITEMS_MAX: Final = 10
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


class LogLimit:
    """Counts lines by event name; used on one loop. Event names are constants, so they are few.

    A line `log_lines_left_out` reports how many were left out; it is written before the next line
    of any kind after that second, and not at all if no line follows.
    """

    __slots__ = ("_monotonic_ms", "_windows")

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._windows: dict[tuple[str, str], _Window] = {}

    def write(self, line: WriteLine, event: str, *, kind: str = "", **values: Any) -> None:
        """Writes `event` with its values cut to length, unless there were too many this second.

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
        window.written += 1
        line(event, **{name: _cut(name, value) for name, value in values.items()})

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
