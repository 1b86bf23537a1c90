"""How far a stream is: Spark's report of a batch as a few numbers, and as one line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OBSERVED: Final = "lines"
"""The name of the metrics that `events` observes; `records`, `unparsed`, `ahead` and `newest_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProgress:
    """One batch.

    `offsets` has the next offset of each partition, `lag` the records behind them, as far as the batch
    knew. `late_rows` came behind the watermark and were left out; `unparsed` are not in the format, and `ahead`
    are ahead of the log's clock. `watermark` is a time in ISO 8601, empty before there is one. `newest_s` is the
    time of the newest request (seconds since 1970), None in a batch without one.
    """

    batch: int
    records: int
    records_per_s: float
    offsets: Mapping[int, int]
    lag: int
    late_rows: int
    unparsed: int
    ahead: int
    newest_s: int | None
    state_rows: int
    watermark: str


def read_progress(document: Mapping[str, Any]) -> StreamProgress:
    """Returns what Spark's StreamingQueryProgress says of its one source, a topic."""
    source = document["sources"][0]
    ends, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    operators = document.get("stateOperators", [])
    observed = document.get("observedMetrics", {}).get(OBSERVED, {})
    return StreamProgress(
        batch=int(document["batchId"]),
        records=int(document["numInputRows"]),
        records_per_s=float(document.get("processedRowsPerSecond", 0.0)),
        offsets=ends,
        lag=sum(max(0, end - ends.get(partition, 0)) for partition, end in latest.items()),
        late_rows=sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators),
        unparsed=int(observed.get("unparsed") or 0),
        ahead=int(observed.get("ahead") or 0),
        newest_s=None if (newest := observed.get("newest_s")) is None else int(newest),
        state_rows=sum(int(each.get("numRowsTotal", 0)) for each in operators),
        watermark=str(document.get("eventTime", {}).get("watermark", "")),
    )


def _offsets(value: Any) -> dict[int, int]:
    # Text in some versions of Spark, the parsed text in others; null before the first batch.
    topics = json.loads(value) if isinstance(value, str) else value
    return {
        int(partition): int(offset)
        for partitions in (topics or {}).values()
        for partition, offset in partitions.items()
    }


def describe(progress: StreamProgress) -> str:
    """Returns one line for a person."""
    parts = [
        f"batch {progress.batch}: {progress.records:,} records",
        f"{progress.records_per_s:,.0f} rows/s",
        f"offsets {sum(progress.offsets.values()):,}",
        f"lag {progress.lag:,}",
    ]
    if progress.watermark:
        parts.append(f"watermark {progress.watermark}")
    if progress.late_rows:
        parts.append(f"{progress.late_rows:,} late")
    if progress.unparsed:
        parts.append(f"{progress.unparsed:,} not in the format")
    if progress.ahead:
        parts.append(f"{progress.ahead:,} ahead of the log's clock")
    return ", ".join(parts)
