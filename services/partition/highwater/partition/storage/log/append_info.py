"""What is known of a group of batches when it is appended (Kafka's `LogAppendInfo`)."""

from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview


class LogAppendInfo:
    """One group of whole batches of one leader epoch; it lives as long as its append.

    Whoever checks the batches makes one for each group, fills in all fields, and hands it to
    `LogWriter.append`. There is no constructor with arguments on purpose: this is the hot path,
    and eight arguments cost more than eight assignments.
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
    """Of each batch."""
    buffers: Sequence[Buffer]
    """The batches' bytes, offsets and epoch already set, in as many pieces as the caller likes."""
    leader_epoch: int
    """All batches have the same."""
    max_timestamp: int
    """The group's largest, in milliseconds; -1 if there is none."""
    max_timestamp_offset: int
    """The last offset of the first batch that has the largest timestamp."""
    nbytes: int
    """In all buffers."""
    next_offset: int
    """The offset that follows the last batch: the log end offset after the append."""
    sizes: list[int]
    """Bytes of each batch."""
