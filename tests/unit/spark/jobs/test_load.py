"""The command's arguments and sentences."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from dataclasses import replace
from typing import Any

import typer
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from highwater.spark.__main__ import app
from highwater.spark.brokers import BrokersAway
from highwater.spark.ending import EXIT_SPARK
from highwater.spark.jobs.load import TURNS_FAILED_MAX, TimeUnusable, Turns, sentence, time_ms
from highwater.spark.load_run import LoadResult


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00+01:00", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_times(text: str, found: int) -> None:
    assert time_ms(text) == found


def test_no_time() -> None:
    with pytest.raises(TimeUnusable, match="'yesterday'"):
        time_ms("yesterday")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--topic"),
        (["--topic", "t", "--replace"], "--from"),
        (["--topic", "t", "--every", "10"], "10m"),
        (["--pattern", "a("], "no regular expression"),
        (["--topic", "t", "--format", "json"], "schema"),
        (["--topic", "t", "--from", "0", "--replace", "--every", "1m"], "--every"),
        (["--topic", "t", "--html", f"{__file__}/page.html"], "cannot write to directory"),
    ],
)
def test_mistakes_are_told_in_one_line_before_spark_starts(words: list[str], told: str) -> None:
    done = CliRunner().invoke(app, ["load", "--table", "/nowhere", *words])
    assert done.exit_code == 2
    assert told in done.output
    assert done.output.count("\n") == 1


def test_the_result_in_one_line() -> None:
    result = LoadResult(version=3, offsets=10, records=8, bad=2, lag=1, seconds=2.0)
    assert sentence(result) == (
        "8 records of 10 offsets, 2 of them in quarantine in 2.0 s (4 rows/s); "
        "version 3, lag 1 offsets."
    )
    assert sentence(replace(result, version=None)) == "Nothing new; lag 1 offsets."


def failing(error: Exception) -> Any:
    def once() -> None:
        raise error

    return once


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError("no")])
def test_a_session_that_is_over_ends_the_job(
    capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    turns = Turns(failing(error), is_over=lambda: True)
    with pytest.raises(typer.Exit) as caught:
        turns.turn()
    assert caught.value.exit_code == EXIT_SPARK
    assert "start the job again" in capsys.readouterr().err


def test_errors_of_spark_end_the_job_after_many_in_a_row() -> None:
    errors: list[Exception] = [PySparkException("disk")] * (TURNS_FAILED_MAX - 1)
    errors += [BrokersAway("away")] * (2 * TURNS_FAILED_MAX)
    errors += [PySparkException("disk")] * TURNS_FAILED_MAX
    left = list(errors)

    def once() -> None:
        raise left.pop(0)

    turns = Turns(once, is_over=lambda: False)
    for _ in errors[:-1]:
        turns.turn()
    with pytest.raises(PySparkException):
        turns.turn()


def test_a_turn_that_succeeds_begins_the_count_anew() -> None:
    left: list[Exception | None] = [PySparkException("disk")] * (TURNS_FAILED_MAX - 1)
    left += [None, *left]

    def once() -> None:
        if (error := left.pop(0)) is not None:
            raise error

    turns = Turns(once, is_over=lambda: False)
    while left:
        turns.turn()
