"""What `watch` has to find in the sample log, and the command that makes it look."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.stream_jobs import minutes_of, read_all, sample_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATE_S = 24 * 3600
RULES = """
[[rule]]
name = "busy"
kind = "threshold"
metric = "requests"
above = 125

[[rule]]
name = "missing pages"
kind = "threshold"
metric = "client_error_rate"
above = 0.03
for_minutes = 2
clear_minutes = 2

[[rule]]
name = "silence"
kind = "absence"
minutes = 59
"""


def arguments(
    bootstrap: str, topic: str, alarm_topic: str, place: Path, *, offsets_per_batch: int
) -> list[str]:
    """The job's name and options; its tables and its checkpoint are in `place`, and RULES are written there."""
    rules = place / "rules.toml"
    rules.write_text(RULES)
    return [
        "watch", "--bootstrap", bootstrap, "--topic", topic, "--late", "1 day",
        "--checkpoint", str(place / "state"), "--minutes", str(place / "minutes"),
        "--alarms", str(place / "alarms"), "--rules", str(rules), "--alarm-topic", alarm_topic,
        "--max-offsets-per-batch", str(offsets_per_batch), "--every", "0",
    ]  # fmt: skip


def assert_right(spark: SparkSession, place: Path, table_format: str = "delta") -> list[str]:
    """Compares both tables with the file, to the row; returns the changes of alarms."""
    from pyspark.sql import functions as f

    from highwater.spark.tables import open_table
    from highwater.spark.watch.alarms import AlarmState, advance
    from highwater.spark.watch.rules import parse_rules
    from highwater.spark.watch.state_text import to_value
    from highwater.spark.watch.traffic import collect

    minutes = minutes_of(sample_events(), late_s=LATE_S)
    assert len(minutes) > 40
    table = open_table(spark, table_format, str(place / "minutes"))
    assert collect(table.read()) == minutes
    _, changes = advance(parse_rules(RULES), AlarmState(), minutes)
    rows = (
        open_table(spark, table_format, str(place / "alarms"))
        .read()
        .select("rule", "state", f.unix_seconds("at").alias("at"), "value")
        .collect()
    )
    assert sorted(map(tuple, rows)) == sorted(
        (each.rule, "begin" if each.begins else "end", each.at_s, each.value) for each in changes
    )
    assert {each.rule for each in changes} == {"busy", "missing pages", "silence"}
    return [to_value(each) for each in changes]


def assert_told(bootstrap: str, alarm_topic: str, changes: list[str]) -> None:
    """The topic has every change in order; those of a batch that was repeated may be there several times."""
    told = [value for _, value in read_all(bootstrap, alarm_topic)]
    assert list(dict.fromkeys(told)) == changes
