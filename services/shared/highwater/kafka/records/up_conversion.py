"""Message sets of formats 0 and 1 become record batches, as Kafka stores them.

Kafka's way (`LogValidator.convertAndAssignOffsetsNonCompressed`, and that for compressed sets): all
messages of a partition become one batch with the producer's compression, without producer id. A
message of format 0 has no timestamp (-1). Offsets that the producer wrote mean nothing.
"""

from itertools import chain
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import (
    DecompressedTooLargeError,
    RecordsError,
    UnknownCompressionError,
)
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import COMPRESSION_MASK, LOG_APPEND_TIME_BIT
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression, decompress
from highwater.kafka.records.lz4_format_0 import decompress_lz4
from highwater.kafka.records.message_set import MAGIC_0, MAGIC_1, Message, iter_messages
from highwater.kafka.records.validation import BatchProblem, RecordError

_STAMPED: Final = BatchProblem(
    error=ErrorCode.INVALID_TIMESTAMP,
    message="producers may not set the timestamp type to LogAppendTime",
)


class _RefusedError(Exception):
    """The set is refused for this reason."""

    def __init__(self, problem: BatchProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def to_record_batch(message_set: Buffer, decompressed_size_max: int) -> bytes | BatchProblem:
    """The record batch of a producer's message set, or why the set is refused.

    A message that is cut off at the end is left out, as in Kafka (`UnifiedLog.trimInvalidBytes`). A
    compressed set may decompress to `decompressed_size_max` bytes, or it is MESSAGE_TOO_LARGE.
    Checksums are checked: CORRUPT_MESSAGE. Mixed formats, several compressed sets, or one inside
    another are INVALID_RECORD; LogAppendTime set by the producer is INVALID_TIMESTAMP.
    """
    try:
        messages = iter_messages(message_set)
        first = next(messages, None)
        if first is None:
            return _invalid("no whole message").problem
        codec = _compression_of(first, first.magic)
        builder = RecordBatchBuilder(compression=codec)
        if codec:
            if next(messages, None) is not None:
                return _invalid("a compressed message set is not alone").problem
            messages = iter_messages(_decompressed(first, codec, decompressed_size_max))
        else:
            messages = chain((first,), messages)
        for index, message in enumerate(messages):
            if _compression_of(message, first.magic):
                raise _invalid("a compressed message set inside another, or behind one", index)
            builder.append(
                key=None if message.key is None else bytes(message.key),
                value=None if message.value is None else bytes(message.value),
                timestamp_ms=message.timestamp,
            )
    except _RefusedError as refusal:
        return refusal.problem
    except DecompressedTooLargeError as error:
        return BatchProblem(error=ErrorCode.MESSAGE_TOO_LARGE, message=str(error))
    except UnknownCompressionError as error:
        return BatchProblem(error=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message=str(error))
    except RecordsError as error:
        return BatchProblem(error=ErrorCode.CORRUPT_MESSAGE, message=str(error))
    if not builder.record_count:
        return _invalid("the compressed message set is empty").problem
    return builder.build()


def _compression_of(message: Message, magic: int) -> int:
    """The message's compression; refuses another format than `magic`, and a broker's timestamp."""
    if message.magic != magic:
        raise _invalid(f"a message of format {message.magic} beside or inside one of {magic}")
    if magic == MAGIC_1 and message.attributes & LOG_APPEND_TIME_BIT:
        raise _RefusedError(_STAMPED)
    return message.attributes & COMPRESSION_MASK


def _decompressed(wrapper: Message, codec: int, size_max: int) -> Buffer:
    """The message set inside a compressed message."""
    if codec > Compression.LZ4:
        raise UnknownCompressionError(f"messages of formats 0 and 1 have no compression {codec}")
    if wrapper.value is None:
        raise _invalid("the compressed message set is null")
    if codec == Compression.LZ4 and wrapper.magic == MAGIC_0:
        return decompress_lz4(wrapper.value, size_max)
    return decompress(codec, wrapper.value, size_max)


def _invalid(message: str, index: int | None = None) -> _RefusedError:
    named = () if index is None else (RecordError(index, message),)
    problem = BatchProblem(error=ErrorCode.INVALID_RECORD, message=message, record_errors=named)
    return _RefusedError(problem)
