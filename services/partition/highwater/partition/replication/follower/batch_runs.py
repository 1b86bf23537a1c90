"""Batches as they came from a leader: checked by their headers, divided by leader epoch.

Nothing is decoded but headers, and no byte is changed. Sizes and positions are bytes, offsets
count records.
"""

from dataclasses import dataclass, field

from crc32c import crc32c

from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
)

_unpack_header = BATCH_HEADER.unpack_from


@dataclass(slots=True, kw_only=True)
class Run:
    """Batches of one leader epoch, one after another; positions are those in the records."""

    epoch: int
    start: int
    stop: int
    next_offset: int
    max_timestamp_offset: int
    """The last offset of the first batch that has the largest timestamp."""
    max_timestamp: int = -1
    base_offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    gap: bool = False
    """Whether offsets are missing before one of the batches, or right behind them."""
    idempotent: list[tuple[int, ...]] = field(default_factory=list)
    """Headers of batches with a producer id."""


def split_runs(
    records: memoryview, *, offset: int, epoch: int, epoch_max: int, gaps_end: int
) -> tuple[list[Run], str]:
    """Sound batches by leader epoch, and what is wrong with the first that is not ("": nothing).

    `offset` is where the first batch has to begin, `epoch` the smallest that it may have, and no
    batch may be of a later one than `epoch_max`. Compacted logs have gaps between batches, which may
    reach up to `gaps_end`, -1 if there are none.
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
        if run is None or batch_epoch != run.epoch:
            run = Run(
                epoch=batch_epoch,
                start=position,
                stop=position,
                next_offset=offset,
                max_timestamp_offset=offset,
                gap=base_offset != offset,
            )
            runs.append(run)
        epoch = batch_epoch
        offset = base_offset + header[6] + 1
        size = header[1] + LENGTH_OVERHEAD
        position += size
        run.stop = position
        run.next_offset = offset
        run.base_offsets.append(base_offset)
        run.sizes.append(size)
        if header[8] > run.max_timestamp:
            run.max_timestamp, run.max_timestamp_offset = header[8], offset - 1
        if header[9] >= 0:
            run.idempotent.append(header)
    return runs, ""


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
