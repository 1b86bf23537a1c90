"""The command line of ranking; tests/spark covers its results, with Spark."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from pyspark.errors import IllegalArgumentException

from highwater.model.errors import UsageError
from highwater.spark.__main__ import app
from highwater.spark.checkpoint import CheckpointRefused
from highwater.spark.jobs import stream_command
from highwater.spark.jobs.ranking import check_items


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--checkpoint is needed"),
        (["--window", "soon"], "--window wants a duration"),
        (["--slide", "2 hours"], "windows of 3600 s every 7200 s leave gaps"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(arguments: list[str], told: str):
    result = CliRunner().invoke(app, ["ranking", *arguments])
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater-spark: {told}")
    assert result.output.count("\n") == 1


def test_items_that_are_no_expression():
    spark = MagicMock()
    check_items(spark, "^/")
    # What PySpark makes of Java's PatternSyntaxException; tests/spark provokes it.
    error = IllegalArgumentException("Unclosed group near index 1\n(")
    spark.sparkContext._jvm.java.util.regex.Pattern.compile.side_effect = error
    with pytest.raises(UsageError, match=r"^--items is no expression: Unclosed group"):
        check_items(spark, "(")


def test_windows_and_ranks_go_to_the_checkpoint(monkeypatch: pytest.MonkeyPatch):
    given = []

    @contextmanager
    def started(name: str, _options: object, settings: dict[str, str]):
        given.append((name, settings))
        raise CheckpointRefused("another window")
        yield

    monkeypatch.setattr(stream_command, "started", started)
    result = CliRunner().invoke(app, ["ranking", "--window", "2h", "--top", "7"])
    assert (result.exit_code, result.output) == (2, "highwater-spark: another window\n")
    settings = {"--window": "7200 seconds", "--slide": "600 seconds", "--top": "7"}
    assert given == [("ranking", settings)]
