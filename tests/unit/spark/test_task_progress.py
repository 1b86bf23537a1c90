"""The line of progress."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.task_progress import line, shown


def test_stages_are_added_up() -> None:
    assert line("load t", [(3, 10), (1, 2)], 61.4) == "load t: 4 of 12 tasks, 61 s"
    assert line("load t", [], 0) == "load t: 0 of 0 tasks, 0 s"


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with shown(None, "load"):  # A session would be asked for its tasks.
        pass
    assert capsys.readouterr().err == ""
