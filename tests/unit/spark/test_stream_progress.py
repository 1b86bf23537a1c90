from __future__ import annotations

import pytest

from highwater.spark.stream_progress import StreamProgress, describe, read_progress


def document(end: object, latest: object) -> dict[str, object]:
    return {
        "batchId": 4,
        "numInputRows": 1000,
        "processedRowsPerSecond": 250.5,
        "eventTime": {"watermark": "2015-05-17T10:00:00.000Z"},
        "stateOperators": [
            {"numRowsTotal": 3, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 4},
        ],
        "sources": [{"endOffset": end, "latestOffset": latest}],
        "observedMetrics": {"lines": {"records": 1000, "unparsed": 5, "ahead": 3, "newest_s": 9}},
    }


EXPECTED = StreamProgress(
    batch=4, records=1000, records_per_s=250.5, offsets={0: 10, 1: 20}, lag=7, late_rows=2,
    unparsed=5, ahead=3, newest_s=9, state_rows=7, watermark="2015-05-17T10:00:00.000Z",
)  # fmt: skip


@pytest.mark.parametrize("as_text", [False, True])
def test_offsets_and_lag(as_text: bool):
    end, latest = {"t": {"0": 10, "1": 20}}, {"t": {"0": 15, "1": 20, "2": 2}}
    texts = ('{"t": {"0": 10, "1": 20}}', '{"t": {"0": 15, "1": 20, "2": 2}}')
    assert read_progress(document(*(texts if as_text else (end, latest)))) == EXPECTED


def test_before_the_first_batch():
    found = read_progress(
        {"batchId": 0, "numInputRows": 0, "sources": [{"endOffset": None, "latestOffset": "null"}]}
    )
    assert (found.offsets, found.lag, found.watermark) == ({}, 0, "")
    assert (found.ahead, found.newest_s) == (0, None)


def test_what_is_told():
    assert describe(EXPECTED) == (
        "batch 4: 1,000 records, 250 rows/s, offsets 30, lag 7, "
        "watermark 2015-05-17T10:00:00.000Z, 2 late, 5 not in the format, "
        "3 ahead of the log's clock"
    )
