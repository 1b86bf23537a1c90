"""Batches that came from a leader: their headers are checked, and they are split by leader epoch.

Only headers are decoded, and no byte is changed. Sizes and positions are in bytes.
"""

from dataclasses import dataclass, field

from crc32c import crc32c

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
)
from highwater.kafka.records.control import EndMarker, read_end_marker
from highwater.partition.storage.log.append_info import LogAppendInfo
from highwater.partition.storage.segment.time_index import NO_TIMESTAMP

_unpack_header = BATCH_HEADER.unpack_from


@dataclass(slots=True, kw_only=True)
class Run:
    """Consecutive batches of one leader epoch, in the form in which the log takes them."""

    info: LogAppendInfo
    """Complete but for its buffers: the records from `start` to `stop`."""
    start: int
    """Position in the records."""
    gap: bool
    """Whether offsets are missing before one of the batches, or right behind the run."""
    idempotent: list[tuple[int, ...]] = field(default_factory=list)
    """Headers of batches with a producer id."""
    markers: dict[int, EndMarker] = field(default_factory=dict)
    """What control batches say, by base offset. One that aborts a transaction is the run's first
    batch (`LogTransactions.before_abort`)."""

    @property
    def stop(self) -> int:
        """Position in the records."""
        return self.start + self.info.nbytes


def split_runs(
    records: memoryview, *, offset: int, epoch: int, epoch_max: int, gaps_end: int
) -> tuple[list[Run], str]:
    """Split sound batches by leader epoch; the text says what is wrong with the first other one.

    The text is "" if all are sound. The first batch must begin at `offset`. The batches' leader
    epochs must not decrease and must lie between `epoch` and `epoch_max`. Compacted logs have gaps
    between batches; a batch behind a gap must not begin after `gaps_end` (-1: no gaps are allowed).
    """
    runs: list[Run] = []
    run: Run | None = None
    position, end = 0, len(records)
    while position < end:
        header, unsound = _checked(records, position, end)
        if unsound:
            return runs, unsound
        base_offset, batch_epoch = header[0], header[2]
        if base_offset != offset:
            if not offset < base_offset <= gaps_end:
                return runs, f"a batch begins at offset {base_offset} instead of {offset}"
            if run is not None:
                run.gap = True
        if not epoch <= batch_epoch <= epoch_max:
            return runs, f"leader epoch {batch_epoch} comes after {epoch} in epoch {epoch_max}"
        marker = None
        if header[5] & CONTROL_BIT:
            try:
                marker = _marker(records, position, header)
            except RecordsError as error:
                return runs, f"a control batch at offset {base_offset}: {error}"
        aborts = marker is not None and not marker.committed
        if run is None or batch_epoch != epoch or aborts:
            run = Run(
                info=_new_info(batch_epoch, offset), start=position, gap=base_offset != offset
            )
            runs.append(run)
            epoch = batch_epoch
        info = run.info
        offset = base_offset + header[6] + 1
        size = header[1] + LENGTH_OVERHEAD
        position += size
        info.base_offsets.append(base_offset)
        info.sizes.append(size)
        info.nbytes += size
        info.next_offset = offset
        if header[8] > info.max_timestamp:
            info.max_timestamp, info.max_timestamp_offset = header[8], offset - 1
        if header[9] >= 0:
            run.idempotent.append(header)
            if marker is not None:
                run.markers[base_offset] = marker
    return runs, ""


def _marker(records: memoryview, position: int, header: tuple[int, ...]) -> EndMarker | None:
    payload = records[position + HEADER_SIZE : position + header[1] + LENGTH_OVERHEAD]
    return read_end_marker(payload, header[12])


def _new_info(epoch: int, offset: int) -> LogAppendInfo:
    """Describe a run without batches yet; its first batch begins at `offset` or behind it."""
    info = LogAppendInfo()
    info.base_offsets, info.sizes = [], []
    info.leader_epoch = epoch
    info.nbytes = 0
    info.next_offset = info.max_timestamp_offset = offset
    info.max_timestamp = NO_TIMESTAMP
    return info


def _checked(records: memoryview, position: int, end: int) -> tuple[tuple[int, ...], str]:
    """The header of the batch at `position`, and what is wrong with the batch ("": nothing)."""
    if end - position < HEADER_SIZE:
        return (), f"{end - position} bytes are no batch"
    header = _unpack_header(records, position)
    stop = position + header[1] + LENGTH_OVERHEAD
    if not position + HEADER_SIZE <= stop <= end:
        return (), f"a batch at offset {header[0]} has length {header[1]} of {end - position}"
    if header[3] != MAGIC or header[0] < 0 or header[6] < 0:
        return (), f"no batch of format 2 at offset {header[0]}: magic {header[3]}"
    if crc32c(records[position + ATTRIBUTES_AT : stop]) != header[4]:
        return (), f"the batch at offset {header[0]} does not match its checksum"
    return header, ""
