"""Counts that Spark takes while it writes, so that nothing is read twice to be counted."""

import time
from typing import Any, Final

from pyspark.sql import Observation

WAIT_S: Final = 30.0
"""The counts come by a listener, soon after the query has ended."""
_POLL_S: Final = 0.02


def counts(observation: Observation) -> dict[str, int] | None:
    """Returns the counts of a query that has ended; None if Spark does not tell them.

    `Observation.get` would wait for ever for a writer that hides its query from the listener.
    """
    deadline = time.monotonic() + WAIT_S
    inside: Any = observation._jo  # noqa: SLF001 # There is no public way to ask without waiting.
    future = inside.future()
    while not future.isCompleted():
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)
    return {name: int(value or 0) for name, value in observation.get.items()}
