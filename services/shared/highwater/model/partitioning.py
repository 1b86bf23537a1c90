"""Finds the partition of a coordinator's topic for a group or a transactional id.

Kafka: `Utils.abs(groupId.hashCode) % partitions` (GroupMetadataManager.partitionFor,
TransactionStateManager.partitionFor). Java hashes UTF-16 code units, so a character outside the
basic plane counts as its two surrogates.
"""

from typing import Final

_INT_MIN: Final = -(2**31)


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
    assert partitions > 0
    value = java_string_hash(coordinator_id)
    # Kafka's Utils.abs maps Integer.MIN_VALUE, which has no positive counterpart, to 0.
    return 0 if value == _INT_MIN else abs(value) % partitions
