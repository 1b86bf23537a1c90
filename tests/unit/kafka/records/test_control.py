"""Markers, read back from the batches that the builder and Kafka's own clients' codec make."""

import pytest

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import HEADER_SIZE, read_header
from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.kafka.records.control import CONTROL_BYTES_MAX, read_end_marker


def payload(key, value):
    builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, transactional=True, control=True)
    builder.append(key=key, value=value, timestamp_ms=1)
    return builder.build()[HEADER_SIZE:]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker(commit: bool) -> None:
    data = end_transaction_marker(
        commit=commit, producer_id=8, producer_epoch=2, coordinator_epoch=77, timestamp_ms=5
    )
    assert len(data) < CONTROL_BYTES_MAX
    count = read_header(data).record_count
    assert read_end_marker(data[HEADER_SIZE:], count) == (commit, 77)


def test_what_is_no_marker() -> None:
    assert read_end_marker(b"", 0) is None, "compaction has removed the record"
    assert read_end_marker(payload(b"\0\0\0\2", b""), 1) is None, "a change of leaders"


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\0\0", b""), (b"\0\0\0\1", None), (b"\0\0\0\0", b"\0\0\0")]
)
def test_markers_that_are_cut(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(RecordsError):
        read_end_marker(payload(key, value), 1)


def test_later_versions_may_say_more() -> None:
    later = payload(b"\0\1\0\1more", b"\0\1\0\0\0\5more")
    assert read_end_marker(later, 1) == (True, 5)
