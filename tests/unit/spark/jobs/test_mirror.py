"""The command line of mirror; tests/spark covers what it copies."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.__main__ import app

WHERE = ["--source", "a=h:1", "--target", "h:2"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name a --source"),
        (["--source", "h:1"], "--source wants ALIAS=HOST:PORT"),
        (["--source", "a=h:1"], "--target is needed"),
        (WHERE, "name a --topic or a --pattern"),
        ([*WHERE, "--pattern", "a("], "--pattern 'a(' is no regular expression"),
        ([*WHERE, "--topic", "t", "--html", f"{__file__}/m.html"], "cannot write to directory"),
        ([*WHERE, "--topic", "t", "--from", "soon"], "--from wants earliest, latest or a time"),
        ([*WHERE, "--topic", "t", "--kafka", "x"], "--kafka wants NAME=VALUE"),
        ([*WHERE, "--topic", "t", "--target-kafka", "x"], "--target-kafka wants NAME=VALUE"),
        (
            [*WHERE, "--topic", "highwater-mirror.a.offsets"],
            "highwater-mirror.a.offsets is a mirror's",
        ),
        ([*WHERE, "--source", "b=h:3", "--translate", "g"], "--translate wants one --source"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(arguments: list[str], told: str):
    result = CliRunner().invoke(app, ["mirror", *arguments])
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater-spark: {told}")
    assert result.output.count("\n") == 1
