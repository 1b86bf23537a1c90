"""How full a volume may be before a node stops to write to it.

Two marks. Below the first, clients' produce is refused, while replication and internal topics go on: what
is acknowledged elsewhere must find its place here, and offset commits free more than they take. Below the
second, half of the first, nothing is appended, so that the file system never has to refuse a write, which
takes the whole directory offline. Each state ends a tenth above its mark.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

OPENS_ABOVE: Final = 1.1
"""Times the mark. Otherwise it would close again with the next batch."""

LAST_PART: Final = 0.5
"""Of the first mark: what replication may use."""

_UNITS: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class DiskState(Enum):
    """What may be appended to a directory; the values are those of the metric."""

    OPEN = 0
    NO_CLIENTS = 1
    NOTHING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskMark:
    """Free space in bytes, or as a part of the volume: the larger one counts."""

    nbytes: int = 0
    part: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of "134217728", "128MiB" or "5%". Raises ValueError."""
        text = text.strip()
        unit = 1
        for name, factor in _UNITS.items():
            if text.endswith(name):
                text, unit = text.removesuffix(name).strip(), factor
        if text.endswith("%"):
            part = float(text[:-1]) / 100
            if not 0 <= part < 1:
                raise ValueError(f"expected 0% to less than 100%, got {text!r}")
            return cls(part=part)
        if not text.isdecimal():
            raise ValueError(f"expected a number of bytes, or of percent with %, got {text!r}")
        return cls(nbytes=int(text) * unit)

    def of(self, total_bytes: int) -> int:
        """In bytes of a volume of that size."""
        return max(self.nbytes, int(self.part * total_bytes))


def next_state(state: DiskState, *, free_bytes: int, mark_bytes: int) -> DiskState:
    """The state of a directory with so much free space, which was in `state`."""
    last = int(mark_bytes * LAST_PART)
    if free_bytes < last or (state is DiskState.NOTHING and free_bytes < last * OPENS_ABOVE):
        return DiskState.NOTHING
    if free_bytes < mark_bytes:
        return DiskState.NO_CLIENTS
    if state is not DiskState.OPEN and free_bytes < mark_bytes * OPENS_ABOVE:
        return DiskState.NO_CLIENTS
    return DiskState.OPEN
