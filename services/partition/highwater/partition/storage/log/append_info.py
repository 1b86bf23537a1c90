"""A group of batches and its fields, for an append (Kafka's `LogAppendInfo`)."""

from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview


class LogAppendInfo:
    """One group of whole batches of one leader epoch; it lives as long as its append.

    The code that checks the batches makes one per group, sets all fields, and passes it to
    `LogWriter.append`. It has no constructor with arguments on purpose: on the hot path eight
    arguments cost more than eight assignments.
    """

    __slots__ = (
        "base_offsets",
        "buffers",
        "leader_epoch",
        "max_timestamp",
        "max_timestamp_offset",
        "nbytes",
        "next_offset",
        "sizes",
    )

    base_offsets: list[int]
    """One per batch."""
    buffers: Sequence[Buffer]
    """The batches' bytes, with offsets and epoch set, in any number of pieces."""
    leader_epoch: int
    """The same for all batches."""
    max_timestamp: int
    """The largest timestamp of the group, in milliseconds; -1 if there is none."""
    max_timestamp_offset: int
    """The last offset of the first batch with the largest timestamp."""
    nbytes: int
    """Size of all buffers."""
    next_offset: int
    """The offset that follows the last batch: the log end offset after the append."""
    sizes: list[int]
    """Bytes of each batch."""
