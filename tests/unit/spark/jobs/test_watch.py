"""The command line of watch; tests/spark covers its results, with Spark."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--checkpoint is needed"),
        (["--rules", "none.toml"], "cannot read none.toml: "),
        (["--late", "soon"], "--late wants a duration"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(arguments: list[str], told: str):
    result = CliRunner().invoke(app, ["watch", *arguments])
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater-spark: {told}")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"begins": True, "value": 7.0, "limit": 5.0}, "ALARM r: 7, limit 5"),
        ({"begins": False, "value": 0.25, "limit": 5.0}, "ended r: 0.25, limit 5"),
        ({"begins": False, "value": None, "limit": None}, "ended r: its rule is gone"),
    ],
)
def test_what_is_told_of_alarms(change: dict[str, object], line: str):
    from highwater.spark.jobs.watch import describe
    from highwater.spark.watch.alarms import AlarmChange

    assert describe(AlarmChange(rule="r", at_s=0, since_s=0, **change)) == line
