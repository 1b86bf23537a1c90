"""Sizes and times as people write them on a command line: 10GB, 512KiB, 1d."""

import re
from typing import Final

from highwater.model.errors import UsageError

SIZE_MAX: Final = 1 << 62
"""More bytes than any disk; the protocol's numbers end at 2^63."""

_NUMBER: Final = re.compile(r"(\d{1,20})\s?([A-Za-z]*)")
_SIZES: Final = {
    "": 1,
    "b": 1,
    **{f"{unit}b": 1000**power for power, unit in enumerate("kmgtp", start=1)},
    **{f"{unit}ib": 1024**power for power, unit in enumerate("kmgtp", start=1)},
}
_TIMES_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NONE: Final = "none"


def bytes_of(flag: str, text: str) -> int | None:
    """Bytes; None for `none`. Raises UsageError."""
    number = _of(text, _SIZES)
    if text == _NONE:
        return None
    if number is None or number > SIZE_MAX:
        raise UsageError(
            f"{flag}: expected bytes, such as 1000, 10GB or 512KiB, or none, got {text!r}"
        )
    return number


def count_of(flag: str, text: str) -> int | None:
    """A whole number that fits into 31 bits; None for `none`. Raises UsageError."""
    if text == _NONE:
        return None
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else -1
    if not 0 <= number < 1 << 31:
        raise UsageError(f"{flag}: expected a whole number or none, got {text!r}")
    return number


def milliseconds_of(flag: str, text: str) -> int:
    """A time in milliseconds: a number and ms, s, m, h or d; 0 needs none. Raises UsageError."""
    number = 0 if text == "0" else _of(text, _TIMES_MS)
    if number is None or number > SIZE_MAX:
        raise UsageError(f"{flag}: expected a time, such as 0, 30m, 12h or 1d, got {text!r}")
    return number


def _of(text: str, units: dict[str, int]) -> int | None:
    found = _NUMBER.fullmatch(text)
    unit = None if found is None else units.get(found[2].lower())
    return None if found is None or unit is None else int(found[1]) * unit
