"""Batches of one partition whose codec is not the topic's: converted off the loop, before the append.

A group with such a batch, and every group behind it, waits here until the batches before it are
converted; then the replica appends it as if it came now. So nothing overtakes within a partition, and
a leader that has changed meanwhile refuses the groups in their order. One group of a partition is in
hand at a time. Groups that need no conversion, and find none waiting, pass at once: batches that are
right stay as they are.

Kafka converts under the partition's lock, on the request's thread (`UnifiedLog.append`, `LogValidator`).
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from highwater.hop.append import AppendGroup, Batch, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecompressedTooLargeError, RecordsError
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    RecordBatchView,
)
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.recompress import recompress
from highwater.kafka.records.validation import validate_header
from highwater.partition.data_plane.policy import DECOMPRESSED_BYTES_MAX, AppendPolicy
from highwater.partition.data_plane.refused_batch import RefusedBatch

Converted = list[Batch]

CONVERTED_BYTES_MAX: Final = DECOMPRESSED_BYTES_MAX
"""Limit of a group's converted batches, and one more: 256 batches of zeros could become 256 MiB. The
others are refused so that clients send them again."""

_CODEC_AT = ATTRIBUTES_AT + 1
"""The byte of the attributes that has the codec."""


class ConversionThreads(Protocol):
    """The node's threads for conversions, and what may wait for them. Used on the node's loop."""

    def admit(self, nbytes: int) -> bool:
        """Counts a group that will wait; False if too much waits. `leave` uncounts it."""
        ...

    def leave(self, nbytes: int) -> None:
        """Uncounts a group."""
        ...

    def submit(
        self, work: Callable[[], Converted], done: Callable[[Converted | Exception], None]
    ) -> None:
        """Runs `work` on a thread, then `done` on the loop, with its result or what it raised."""
        ...


class ConvertingReplica(Protocol):
    """What is asked of the replica whose batches are converted."""

    policy: AppendPolicy

    def refuses(self, group: AppendGroup) -> bool:
        """Whether it would refuse the group for good, whatever its batches are."""
        ...


class Conversions:
    """See the module. Made when a topic first asks for a codec; lives as long as its replica."""

    __slots__ = ("_append", "_in_hand", "_replica", "_threads", "_waiting")

    def __init__(
        self,
        replica: ConvertingReplica,
        threads: ConversionThreads,
        append: Callable[[AppendGroup], None],
    ) -> None:
        """`append` gives a group to the replica, and raises nothing."""
        self._replica = replica
        self._threads = threads
        self._append = append
        self._waiting: deque[AppendGroup] = deque()
        self._in_hand: AppendGroup | None = None
        """The group that is being converted or, right after that, appended."""

    def __len__(self) -> int:
        """Groups that are not appended yet."""
        return len(self._waiting) + (self._in_hand is not None)

    def take(self, group: AppendGroup) -> bool:
        """True if the group waits here, or was refused; False if it is to be appended now."""
        if group is self._in_hand:
            return False
        if self._in_hand is None and not self._places(group):
            return False
        if not self._threads.admit(group.nbytes):
            group.fail(Failure(ErrorCode.REQUEST_TIMED_OUT, "too much waits to be compressed"))
            return True
        self._waiting.append(group)
        if self._in_hand is None:
            self._go_on()
        return True

    def _places(self, group: AppendGroup) -> list[int]:
        """Which of the group's batches have another codec than the topic's.

        Control batches stay as they are written, as in Kafka. None of a group that will be refused.
        """
        codec = self._replica.policy.codec
        if codec < 0:
            return []
        places = [
            place
            for place, batch in enumerate(group.batches)
            if len(batch) >= HEADER_SIZE
            and batch[_CODEC_AT] & COMPRESSION_MASK != codec
            and not batch[_CODEC_AT] & CONTROL_BIT
        ]
        return [] if places and self._replica.refuses(group) else places

    def _go_on(self) -> None:
        """Appends groups until one must be converted, or none is left."""
        while self._waiting:
            group = self._in_hand = self._waiting.popleft()
            places = self._places(group)
            if places:
                batches = [group.batches[place] for place in places]
                work = partial(converted, batches, self._replica.policy)
                self._threads.submit(work, partial(self._converted, group, places))
                return
            self._append_in_hand(group)

    def _converted(
        self, group: AppendGroup, places: list[int], result: Converted | Exception
    ) -> None:
        if isinstance(result, Exception):
            self._leave(group)
            group.fail(Failure(ErrorCode.UNKNOWN_SERVER_ERROR, f"conversion failed: {result}"))
        else:
            # The list may be shared with the sender, who may have to send the batches as they came.
            group.batches = group.batches.copy()
            for place, batch in zip(places, result, strict=True):
                group.batches[place] = batch
            group.whole = None
            self._append_in_hand(group)
        self._go_on()

    def _append_in_hand(self, group: AppendGroup) -> None:
        self._threads.leave(group.nbytes)
        self._append(group)
        self._in_hand = None

    def _leave(self, group: AppendGroup) -> None:
        self._threads.leave(group.nbytes)
        self._in_hand = None


def converted(batches: list[Batch], policy: AppendPolicy) -> Converted:
    """The batches in the policy's codec; runs on any thread.

    Batches that the append refuses by their headers, for their size, too, stay as they are. Those
    that cannot be unpacked become `RefusedBatch`, and so do those after `CONVERTED_BYTES_MAX`.
    """
    made: Converted = []
    nbytes = 0
    for batch in batches:
        if nbytes < CONVERTED_BYTES_MAX:
            made.append(_converted(batch, policy))
            nbytes += len(made[-1])
        else:
            why = f"the batches before it take {nbytes} bytes in the topic's codec"
            made.append(RefusedBatch(Failure(ErrorCode.REQUEST_TIMED_OUT, why)))
    return made


def _converted(batch: Batch, policy: AppendPolicy) -> Batch:
    size = len(batch)
    if size > policy.batch_bytes_max or validate_header(batch, 0, size) is not None:
        return batch
    limit = policy.decompressed_bytes_max
    if policy.codec == Compression.NONE:
        limit = min(limit, policy.batch_bytes_max - HEADER_SIZE)
    try:
        return recompress(
            RecordBatchView(batch, 0, size),
            policy.codec,
            policy.compression_level,
            decompressed_size_max=limit,
        )
    except DecompressedTooLargeError as error:
        return RefusedBatch(Failure(ErrorCode.MESSAGE_TOO_LARGE, str(error)))
    except RecordsError as error:
        return RefusedBatch(Failure(ErrorCode.CORRUPT_MESSAGE, str(error)))
