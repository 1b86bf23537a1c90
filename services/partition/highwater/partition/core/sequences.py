"""The sequence numbers of an idempotent producer's records: 31 bits, which go on at 0 after the largest."""

from typing import Final

NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 0x7FFF_FFFF


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record; -1 for a batch without sequences."""
    if base_sequence < 0:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) & SEQUENCE_MAX


def is_before(one: int, other: int) -> bool:
    """Whether a sequence comes before another one: less than half of all numbers before it."""
    return ((other - one) & SEQUENCE_MAX) < SEQUENCE_MAX // 2 and one != other
