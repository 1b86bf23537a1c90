"""When a line is due: as fast as possible, or at a multiple of the log's own speed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The log's first time (ms since 1970), and how many of its seconds pass in one of ours.

    A speed of None waits for nothing.
    """

    first_ms: int
    speed: float | None

    def wait_s(self, time_ms: int, elapsed_s: float) -> float:
        """Returns the seconds until a line of this time is due, 0 if it is; since the start."""
        if self.speed is None:
            return 0.0
        return max(0.0, (time_ms - self.first_ms) / 1000 / self.speed - elapsed_s)


def parse_speed(text: str) -> float | None:
    """Returns the speed in `x100`, `x0.5` or `max`. Raises ValueError."""
    if text == "max":
        return None
    speed = float(text.removeprefix("x"))
    if not 0 < speed < float("inf"):
        raise ValueError(f"a speed is above 0: {text}")
    return speed


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Returns the bytes in `10G`, `512M`, `64K` or `1000`; units are powers of 1024.

    Raises ValueError.
    """
    unit = text[-1:].upper() if text[-1:].isalpha() else ""
    size = int(text[: len(text) - len(unit)]) * _UNITS.get(unit, 0)
    if size <= 0:
        raise ValueError(f"not a size: {text}")
    return size
