"""A record batch in another codec: what `compression.type` asks of a broker.

Only the records are compressed anew; they are not decoded. Kafka's `LogValidator` builds the batch
again from its records (`buildRecordsAndAssignOffsets`), with the same result for every batch whose
records fit its header.
"""

from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    COMPRESSION_MASK,
    CRC_AT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    RecordBatchView,
    crc_of,
)
from highwater.kafka.records.compression import compress, decompress


def recompress(
    batch: RecordBatchView, codec: int, level: int | None = None, *, decompressed_size_max: int
) -> bytearray:
    """The batch with its records in `codec`; only length, codec and CRC differ in its header.

    `level`: see `compress`. May run on any thread: the work is done without the interpreter's lock.
    The batch's own CRC is not checked. Raises DecompressedTooLargeError if the records take more
    than `decompressed_size_max` bytes, RecordsError if they cannot be decompressed.
    """
    payload = decompress(batch.compression, batch.payload, decompressed_size_max)
    packed = compress(codec, payload, level)
    made = bytearray(memoryview(batch.buf)[batch.start : batch.start + HEADER_SIZE])
    made += packed
    length = len(made) - LENGTH_OVERHEAD
    made[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4] = length.to_bytes(4, "big")
    attributes = batch.attributes & ~COMPRESSION_MASK | codec
    made[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = attributes.to_bytes(2, "big", signed=True)
    made[CRC_AT : CRC_AT + 4] = crc_of(made, 0, len(made)).to_bytes(4, "big")
    return made
