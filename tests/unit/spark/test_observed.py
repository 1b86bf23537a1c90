"""Counts are waited for, but not for ever."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from types import SimpleNamespace

from highwater.spark import observed


def observation(*, completed: bool) -> SimpleNamespace:
    future = SimpleNamespace(isCompleted=lambda: completed)
    return SimpleNamespace(
        _jo=SimpleNamespace(future=lambda: future), get={"records": 3, "bad": None}
    )


def test_counts() -> None:
    assert observed.counts(observation(completed=True)) == {"records": 3, "bad": 0}


def test_a_query_that_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "WAIT_S", 0.05)
    assert observed.counts(observation(completed=False)) is None
