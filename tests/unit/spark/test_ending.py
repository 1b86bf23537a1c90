"""Errors in one line, with the exit codes of the documentation."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

import typer
from pyspark.errors import AnalysisException

from highwater.model.errors import RetriableError, UsageError
from highwater.spark.ending import exit_code, in_one_line, one_line, page_may_fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("a"), 2),
        (RetriableError("b"), 75),
        (AnalysisException("c\nd"), 4),
        (ConnectionRefusedError("e"), 4),
    ],
)
def test_exit_codes(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, in_one_line():
        raise error
    assert caught.value.exit_code == code == exit_code(error)
    told = capsys.readouterr().err
    assert told.startswith("highwater-spark: ")
    assert told.count("\n") == 1


def test_the_first_cause_is_told() -> None:
    class Named:
        def getSimpleName(self) -> str:
            return "IOException"

    class Java:
        def __init__(self, message: str, cause: Java | None = None) -> None:
            self.getCause = lambda: cause
            self.getMessage = lambda: message
            self.getClass = Named

    error = AnalysisException("job aborted\n at x")
    error._origin = Java("stage failed", Java("No space left on device\nmore"))
    assert one_line(error) == "IOException: No space left on device"


def test_bugs_are_not_hidden() -> None:
    with pytest.raises(KeyError), in_one_line():
        raise KeyError("x")


@pytest.mark.parametrize("error", [OSError("disk full"), AnalysisException("disk full\nmore")])
def test_a_page_that_fails_is_told_and_ends_nothing(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    with page_may_fail():
        raise error
    assert capsys.readouterr().err == "highwater-spark: no page was written: disk full\n"
    with pytest.raises(KeyError), page_may_fail():
        raise KeyError("x")
