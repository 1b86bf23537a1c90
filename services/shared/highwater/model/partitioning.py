"""Finds the partition of a coordinator's topic for a group or a transactional id.

Kafka: `Utils.abs(groupId.hashCode) % partitions` (GroupMetadataManager.partitionFor,
TransactionStateManager.partitionFor). Java hashes UTF-16 code units, so a character outside the
basic plane counts as its two surrogates.
"""

from functools import lru_cache
from typing import Final

_INT_MIN: Final = -(2**31)

KEPT_IDS: Final = 16_384
KEPT_ID_CHARS_MAX: Final = 128
"""Partitions of so many ids are kept, of so many characters: 4 MiB. A transaction asks five times."""


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode` of `text`, as a signed 32-bit integer."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = memoryview(text.encode("utf-16-be", "surrogatepass"))
        for index in range(0, len(units), 2):
            unit = units[index] << 8 | units[index + 1]
            value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def coordinator_partition(coordinator_id: str, partitions: int) -> int:
    """The partition, in 0..partitions-1, whose leader coordinates `coordinator_id`."""
    if len(coordinator_id) <= KEPT_ID_CHARS_MAX:
        return _kept_partition(coordinator_id, partitions)
    return _partition_of(coordinator_id, partitions)


def _partition_of(coordinator_id: str, partitions: int) -> int:
    assert partitions > 0
    value = java_string_hash(coordinator_id)
    # Kafka's Utils.abs maps Integer.MIN_VALUE, which has no positive counterpart, to 0.
    return 0 if value == _INT_MIN else abs(value) % partitions


_kept_partition = lru_cache(KEPT_IDS)(_partition_of)
