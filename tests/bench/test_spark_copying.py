"""The time and the processor time of a copy, without the tool's start and without its end."""

from __future__ import annotations

import pytest

from tests.bench.spark_copying import POLL_S, CopyFailed, Sample, copying, watch


def samples(*values: tuple[float, int, float]) -> list[Sample]:
    return [Sample(time_s=time_s, copied=copied, cpu_s=cpu_s) for time_s, copied, cpu_s in values]


def test_a_copy_takes_from_before_its_first_record_to_its_last() -> None:
    found = copying(
        samples(
            (0, 0, 0.0), (10, 0, 5.0), (11, 40, 6.0), (12, 90, 7.5), (13, 100, 7.0), (14, 100, 9)
        ),
        100,
    )
    # A process that ended took its processor time with it.
    assert (found.seconds, found.cpu_s, found.records_per_s) == (3.0, 2.5, 100 / 3)


def test_a_copy_without_begin_or_end_is_none() -> None:
    with pytest.raises(CopyFailed, match="90 of 100 records copied, 1 samples"):
        copying(samples((0, 0, 0.0), (1, 90, 1.0)), 100)
    with pytest.raises(CopyFailed, match="0 samples before"):
        copying(samples((0, 100, 0.0)), 100)
    with pytest.raises(CopyFailed):
        copying([], 100)


def test_watching_ends_with_the_last_record_or_the_limit() -> None:
    now, copied = 100.0, iter([0, 5, 9, 10])

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    found = watch(
        lambda: next(copied), lambda: now - 100, 10,
        timeout_s=60, clock=lambda: now, pause=pause,
    )  # fmt: skip
    assert [each.copied for each in found] == [0, 5, 9, 10]
    assert found[-1] == Sample(time_s=100 + 3 * POLL_S, copied=10, cpu_s=3 * POLL_S)
    with pytest.raises(CopyFailed, match="not within 60 s"):
        watch(lambda: 9, lambda: 0.0, 10, timeout_s=60, clock=lambda: now, pause=pause)
