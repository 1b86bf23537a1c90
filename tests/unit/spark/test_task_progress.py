"""The line of progress."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.task_progress import Stages, line, shown


def test_stages_are_added_up() -> None:
    assert line("load t", [(3, 10), (1, 2)], 6140, 10_000, 61.4) == (
        "load t: 4 of 12 tasks, 6,140 rows (100 rows/s), lag 3,860 of 10,000 offsets, 61 s"
    )
    assert line("audit t", [], 0, None, 0) == "audit t: 0 of 0 tasks, 0 s"
    assert "lag 0 of 5 offsets" in line("load t", [(1, 1)], 7, 5, 1)


class Active(list[Any]):
    """A Scala sequence."""

    apply = list.__getitem__

    def size(self) -> int:
        return len(self)


def stage(number: int, done: int, tasks: int, rows: int, written: int = 0) -> Any:
    fields = {
        "stageId": number, "numCompleteTasks": done, "numTasks": tasks, "inputRecords": rows,
        "outputRecords": written,
    }  # fmt: skip
    return SimpleNamespace(**{name: (lambda value=value: value) for name, value in fields.items()})


def test_rows_of_stages_that_have_ended_stay() -> None:
    active = Active([stage(0, 1, 4, 10), stage(1, 0, 2, 0, written=5)])
    store = SimpleNamespace(activeStages=lambda: active)
    core = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=core))
    stages = Stages()
    stages.look(spark)
    assert (stages.tasks, stages.rows) == ([(1, 4), (0, 2)], 15)
    active[:] = [stage(1, 1, 2, 7)]
    stages.look(spark)
    assert (stages.tasks, stages.rows) == ([(1, 2)], 17)


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with shown(None, "load") as aim:  # A session would be asked for its tasks.
        aim.set(5)
    assert capsys.readouterr().err == ""
