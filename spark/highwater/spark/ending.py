"""How a job ends: exit codes, and errors in one line.

0   done
1   `audit`: there is a difference
2   the operator must change something: a topic that is missing, a schema that does not fit
3   `load`: done, but offsets were gone before they were loaded
4   Spark failed: a full disk, a record that vanished while it was read; run again
75  run again later (EX_TEMPFAIL): another run is at work, no broker answers
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from highwater.model.errors import EXIT_USAGE, RetriableError, UsageError

EXIT_DIFFERENT: Final = 1
EXIT_GONE: Final = 3
EXIT_SPARK: Final = 4
EXIT_LATER: Final = 75

EXPECTED: Final = (UsageError, RetriableError, PySparkException, Py4JError, ConnectionError)
"""Errors that a job tells in one line; any other one is a bug of ours. No connection: Spark's Java has died."""

_LENGTH_MAX: Final = 600


def exit_code(error: BaseException) -> int:
    """Returns the exit code of one of the expected errors."""
    if isinstance(error, UsageError):
        return EXIT_USAGE
    return EXIT_LATER if isinstance(error, RetriableError) else EXIT_SPARK


def one_line(error: BaseException) -> str:
    """Returns what went wrong: of Spark's errors the first cause, without the stack."""
    if isinstance(error, (UsageError, RetriableError)):
        return " ".join(str(error).split())
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return _first(str(error))
    while java.getCause() is not None:
        java = java.getCause()
    return _first(f"{java.getClass().getSimpleName()}: {java.getMessage()}")


@contextmanager
def in_one_line() -> Iterator[None]:
    """Ends the command with the error's line and exit code."""
    try:
        yield
    except EXPECTED as error:
        typer.echo(f"highwater-spark: {one_line(error)}", err=True)
        raise typer.Exit(exit_code(error)) from error


@contextmanager
def page_may_fail() -> Iterator[None]:
    """Tells that no page was written, and goes on: what the job is for is done all the same."""
    try:
        yield
    except (OSError, *EXPECTED) as error:
        typer.echo(f"highwater-spark: no page was written: {one_line(error)}", err=True)


def _first(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LENGTH_MAX else f"{line[:_LENGTH_MAX]}..."
