import pytest

from highwater.partition.storage.cleaning.job import (
    CleaningDone,
    CleaningFailed,
    CleaningJob,
    GroupWritten,
    Progress,
    decode_job,
    decode_report,
    encode_job,
    encode_report,
)


def test_a_job_is_one_line():
    job = CleaningJob(
        directory="/logs/täble\n-0",
        segments=[(0, 10, 100), (10, 30, 50)],
        index_bytes=[8, 0],
        first_dirty=10,
        now_ms=1_700_000_000_000,
        delete_retention_ms=5,
        keys_max=7,
        segment_bytes=1 << 30,
        index_bytes_max=10 << 20,
        index_interval=4096,
        producers={5: 9},
    )
    line = encode_job(job)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_job(line) == job


@pytest.mark.parametrize(
    "report",
    [
        Progress(nbytes=5),
        GroupWritten(bases=[0, 10], bytes_before=150, bytes_after=20),
        CleaningDone(next_dirty=30, records_kept=4, records_dropped=2),
        CleaningFailed(kind="io", error="no\nspace"),
    ],
)
def test_reports_are_lines(report):
    line = encode_report(report)
    assert line.count(b"\n") == 1
    assert decode_report(line) == report


@pytest.mark.parametrize(
    "line", [b"", b"Traceback\n", b"[]\n", b"{}\n", b'{"report":"done"}\n', b'{"report":"new"}\n']
)
def test_invalid_reports(line):
    with pytest.raises(ValueError):
        decode_report(line)
