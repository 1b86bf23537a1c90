"""Record batches and a clock for tests of logs on disk."""

from collections.abc import Callable, Sequence
from pathlib import Path

from crc32c import crc32c

from highwater.kafka.records.batch import (
    BatchHeader,
    is_control,
    read_header,
    set_base_offset_and_epoch,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.append_info import LogAppendInfo
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.log_slice import LogSlice
from highwater.partition.storage.recovery.producer_recovery import marker_in, replay_batch


class ManualClock:
    """Both clocks show `now_ms`, which the test moves."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def make_batch(
    *,
    base_offset: int = 0,
    timestamps: tuple[int, ...] = (1000,),
    value: bytes = b"v",
    epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: int = 0,
    transactional: bool = False,
) -> bytearray:
    """One batch with a record for each timestamp."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        compression=compression,
        transactional=transactional,
    )
    for number, timestamp in enumerate(timestamps):
        builder.append(key=b"%d" % number, value=value, timestamp_ms=timestamp)
    return bytearray(builder.build())


def append(log: PartitionLog, *batches: bytes | bytearray, epoch: int | None = None) -> list[int]:
    """Appends batches as one group at the end of the log, as a leader does; their base offsets."""
    offset = log.log_end_offset
    sizes: list[int] = []
    offsets: list[int] = []
    buffers: list[bytearray] = []
    largest, largest_offset = -1, offset
    aborted = None
    epoch = max(log.epochs.cache.latest, 0) if epoch is None else epoch
    for original in batches:
        batch = bytearray(original)
        set_base_offset_and_epoch(batch, 0, offset, epoch)
        header = read_header(batch)
        offsets.append(offset)
        sizes.append(len(batch))
        buffers.append(batch)
        last = offset + header.last_offset_delta
        marker = marker_in(batch, header) if is_control(header.attributes) else None
        aborted = replay_batch(log.producers.states, header, marker)
        if header.max_timestamp > largest:
            largest, largest_offset = header.max_timestamp, last
        offset = last + 1
    info = append_info(
        buffers, offsets, next_offset=offset, max_timestamp=(largest, largest_offset), epoch=epoch
    )
    if aborted is not None:
        assert len(batches) == 1, "a marker that aborts is a group of its own"
        log.transactions.before_abort(aborted, info)
    log.writer.append(info)
    return offsets


def append_info(
    buffers: Sequence[bytes | bytearray],
    base_offsets: list[int],
    *,
    next_offset: int,
    max_timestamp: tuple[int, int],
    epoch: int,
) -> LogAppendInfo:
    """The append info of batches, one in each buffer; `max_timestamp` with its offset."""
    info = LogAppendInfo()
    info.buffers = buffers
    info.base_offsets = base_offsets
    info.sizes = [len(buffer) for buffer in buffers]
    info.nbytes = sum(info.sizes)
    info.next_offset = next_offset
    info.max_timestamp, info.max_timestamp_offset = max_timestamp
    info.leader_epoch = epoch
    return info


def forget_positions(log: PartitionLog) -> None:
    """Makes the log forget the positions where readers stopped."""
    log.extent.positions.clear()


def write_with(log: PartitionLog, pwritev: Callable[..., int]) -> None:
    """Replaces the log's write function, so that the disk fails from now on."""
    log.writer._pwritev = pwritev


def slice_bytes(log_slice: LogSlice | None) -> bytes:
    """The bytes of the slice, read from its file."""
    if log_slice is None:
        return b""
    segment = log_slice.segment
    with Path(segment.file).open("rb") as file:
        file.seek(log_slice.position)
        return file.read(log_slice.length)


def headers_in(data: bytes) -> list[BatchHeader]:
    """Headers of the whole batches in `data`, each with a correct CRC; the rest must be nothing."""
    found, position = [], 0
    while position < len(data):
        header = read_header(data, position)
        end = position + header.batch_length + 12
        assert end <= len(data), "a batch is cut off"
        assert crc32c(data[position + 21 : end]) == header.crc
        found.append(header)
        position = end
    return found


def read_all(log: PartitionLog, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Headers of every batch that a consumer sees from the log start to the log end."""
    found: list[BatchHeader] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = slice_bytes(log.reader.read(offset, max_bytes, end_offset=log.log_end_offset))
        headers = headers_in(data)
        assert headers
        found += headers
        offset = headers[-1].base_offset + headers[-1].last_offset_delta + 1
    return found


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    *,
    clock: ManualClock | None = None,
    environment: InlineEnvironment | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
    cache_intact: bool = False,
) -> PartitionLog:
    """Opens a log, with defaults for most arguments."""
    return PartitionLog.open(
        directory,
        topic="topic",
        partition=0,
        config=config or LogConfig(),
        clock=clock or ManualClock(),
        environment=environment,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        cache_intact=cache_intact,
    )
