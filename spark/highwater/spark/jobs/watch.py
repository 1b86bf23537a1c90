"""Traffic by minute, and alarms by rules, from a topic with a web server's requests.

    highwater-spark watch --topic access_log --checkpoint state/watch --rules rules.toml \
        --minutes tables/minutes --alarms tables/alarms --alarm-topic alarms

Tables have every row once. The topic has every change of an alarm at least once, in order within a
rule, which is the key. Exit codes are those of `stream_command`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame

from highwater.model.errors import UsageError
from highwater.spark.durations import parse_duration
from highwater.spark.jobs import stream_command as shared
from highwater.spark.jobs.stream_command import StreamJob, StreamOptions
from highwater.spark.options import Html, Png
from highwater.spark.page.files import PageFiles
from highwater.spark.page.view import View
from highwater.spark.stream_page import StreamSoFar
from highwater.spark.stream_progress import StreamProgress
from highwater.spark.tables import TableFormat
from highwater.spark.watch import history, traffic
from highwater.spark.watch.alarm_log import AlarmLog
from highwater.spark.watch.alarms import AlarmChange
from highwater.spark.watch.rules import Rule, parse_rules
from highwater.spark.watch.state_text import to_value
from highwater.spark.watch.view import to_view


def watch(
    job: StreamJob,
    *,
    late_s: int,
    minutes_path: str,
    alarms_path: str,
    rules: tuple[Rule, ...],
    alarm_topic: str | None,
) -> None:
    """Runs until the stream ends."""
    minutes, alarms = job.table(minutes_path), job.table(alarms_path)
    sink = None if alarm_topic is None else job.sink(alarm_topic, configs={})
    log = AlarmLog(job.spark, alarms, job.writer, rules, sink)

    def tell(changes: list[AlarmChange]) -> None:
        for change in changes:
            job.say({"alarm": change.rule, "value": to_value(change)}, describe(change))

    def batch(rows: DataFrame, number: int) -> None:
        minutes.commit(rows, writer=job.writer, version=number, note="")
        tell(log.add(traffic.collect(rows), number))

    def idle(idle_s: float) -> bool:
        changes = log.tick(idle_s)
        tell(changes)
        return bool(changes)

    def nothing(_: float) -> bool:
        """With --once the end of the data says nothing about absence."""
        return False

    def heard(progress: StreamProgress) -> None:
        if progress.newest_s is not None:
            log.saw(progress.newest_s)

    def view(so_far: StreamSoFar) -> View:
        known = history.minutes(minutes), history.changes(alarms)
        return to_view(job.options.topic, *known, so_far)

    on_idle: Callable[[float], bool] = nothing if job.options.once else idle
    job.run(
        traffic.by_minute(job.events(), late_s=late_s),
        batch,
        view=view,
        idle=on_idle,
        heard=heard,
    )


def describe(change: AlarmChange) -> str:
    """Returns one line for a person."""
    what = "ALARM" if change.begins else "ended"
    if change.value is None or change.limit is None:
        return f"{what} {change.rule}: its rule is gone"
    return f"{what} {change.rule}: {change.value:g}, limit {change.limit:g}"


def read_rules(path: Path | None) -> tuple[Rule, ...]:
    """Returns the rules of a file, none without one. Raises UsageError."""
    if path is None:
        return ()
    try:
        return parse_rules(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def command(
    *,
    bootstrap: shared.Bootstrap = "127.0.0.1:9092",
    topic: shared.Topic = "access_log",
    checkpoint: shared.Checkpoint = "",
    minutes: Annotated[str, typer.Option(help="Table of minutes.")] = "watch_minutes",
    alarms: Annotated[str, typer.Option(help="Table of alarms.")] = "watch_alarms",
    rules: Annotated[Path | None, typer.Option(help="TOML file of rules.")] = None,
    alarm_topic: Annotated[
        str | None, typer.Option(help="Topic of alarms; it is made if it is missing.")
    ] = None,
    table_format: shared.Format = TableFormat.DELTA,
    starting: shared.From = "earliest",
    late: shared.Late = "10 minutes",
    ahead: shared.Ahead = shared.AHEAD,
    max_offsets_per_batch: shared.OffsetsPerBatch = shared.OFFSETS_PER_BATCH,
    every: shared.Every = 10,
    once: shared.Once = False,
    json_fields: shared.JsonNames = None,
    quarantine: shared.Quarantine = None,
    as_json: shared.AsJson = False,
    html: Html = None,
    png: Png = None,
    kafka: shared.Kafka = None,
    jars: shared.Jars = None,
) -> None:
    """Watches a topic with requests: traffic by minute, and alarms that begin and end."""
    options = StreamOptions(
        bootstrap=bootstrap, topic=topic, checkpoint=checkpoint, table_format=table_format,
        starting=starting, offsets_per_batch=max_offsets_per_batch, every_s=every, once=once,
        json_fields=json_fields, ahead=ahead, as_json=as_json, quarantine=quarantine,
        files=PageFiles(html=html, png=png), kafka=tuple(kafka or ()), jars=jars,
    )  # fmt: skip
    with shared.exit_codes(topic, bootstrap):
        known, late_s = read_rules(rules), parse_duration(late, "--late")
        with shared.started("watch", options) as job:
            watch(
                job, late_s=late_s, minutes_path=minutes, alarms_path=alarms, rules=known,
                alarm_topic=alarm_topic,
            )  # fmt: skip


if __name__ == "__main__":
    typer.run(command)
