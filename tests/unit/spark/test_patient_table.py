"""Commits that meet others, with a table that is none; tests/spark has two streams on a real one."""

from __future__ import annotations

from unittest.mock import MagicMock, call

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.patient_table import PAUSE_S, WAIT_S, PatientTable
from highwater.spark.tables.port import TableConflict, TableMisfit


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def patient(*outcomes: object) -> tuple[PatientTable, MagicMock, Clock]:
    table, clock = MagicMock(), Clock()
    table.commit.side_effect = outcomes
    return PatientTable(table, now=clock, sleep=clock.sleep), table, clock


def commit(table: PatientTable) -> bool:
    return table.commit("rows", writer="w", version=3, note="n")


@pytest.mark.parametrize("result", [True, False])
def test_a_commit_that_meets_others_is_tried_again(result: bool):
    table, inner, clock = patient(TableConflict("busy"), TableConflict("busy"), result)
    assert commit(table) is result
    same = call("rows", writer="w", version=3, note="n", replace=None)
    assert inner.commit.mock_calls == [same] * 3
    assert clock.now_s == 2 * PAUSE_S


def test_it_waits_for_a_while_only():
    table, inner, clock = patient(*[TableConflict("held by another process")] * 10_000)
    with pytest.raises(TableConflict, match="held by another process"):
        commit(table)
    assert WAIT_S <= clock.now_s < WAIT_S + 1
    assert inner.commit.call_count > 100


def test_other_errors_end_it_at_once():
    table, inner, _ = patient(TableMisfit("no such column"))
    with pytest.raises(TableMisfit):
        commit(table)
    assert inner.commit.call_count == 1


def test_the_rest_is_the_tables():
    table, inner, _ = patient()
    assert table.exists() is inner.exists()
    assert table.read() is inner.read()
    assert table.committed("w") is inner.committed("w")
