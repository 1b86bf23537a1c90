from __future__ import annotations

import pytest

from highwater.model.errors import UsageError
from highwater.spark.durations import for_spark, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90 seconds", 90), ("1 minute", 60), ("10m", 600), ("2 hours", 7200), ("1 day", 86_400)],
)
def test_durations(text: str, seconds: int):
    assert parse_duration(text, "--late") == seconds
    assert for_spark(seconds) == f"{seconds} seconds"


@pytest.mark.parametrize("text", ["", "soon", "10", "0 minutes", "-1 hour", "1 month", "1.5 hours"])
def test_no_durations(text: str):
    with pytest.raises(UsageError, match="--late wants a duration like '10 minutes', not"):
        parse_duration(text, "--late")
