"""A web server's log into a topic, with its own timestamps, at a chosen speed, of a chosen length.

    highwater-spark replay --topic access_log                      # as fast as it goes
    highwater-spark replay --topic access_log --speed x1000        # 1000 seconds of the log in one
    highwater-spark replay --topic access_log --size 10G --seed 7  # the same distribution, more days

It needs neither Java nor Spark. Exit codes: 0 all is acknowledged, or a signal ended it and what was
sent is; 1 a record was refused or not acknowledged; 2 an option or the file is wrong; 75 the
cluster is away.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.model.errors import (
    EXIT_FAILED,
    EXIT_USAGE,
    HighwaterError,
    RetriableError,
    UsageError,
)
from highwater.spark.name_values import name_values
from highwater.spark.replay import cycles
from highwater.spark.replay.pace import Pace, parse_size, parse_speed
from highwater.spark.replay.sample import LogLine, read_sample
from highwater.spark.replay.sender import Sender, Sent
from highwater.spark.stop_signals import StopSignals
from highwater.spark.topic_admin import TopicAdmin

SAMPLE: Final = Path(__file__).resolve().parents[4] / "data" / "apache_access.log"
"""The sample log of the repository."""

EXIT_LATER: Final = 75
"""As `ending` has it: run again later."""

PARTITIONS_DEFAULT: Final = 6
PARTITIONS_MAX: Final = 10_000


def lines_of(
    sample: tuple[LogLine, ...], *, size_bytes: int | None, seed: int, start_ms: int | None
) -> Iterator[LogLine]:
    """Returns the lines to send: the sample, or as many of its cycles as fit into the size."""
    lines = (
        iter(sample)
        if size_bytes is None
        else cycles.scaled(sample, size_bytes=size_bytes, seed=seed)
    )
    return lines if start_ms is None else cycles.starting_at(lines, sample[0].time_ms, start_ms)


def describe(sent: Sent) -> str:
    """Returns one line for a person."""
    time = (
        "-"
        if sent.time_ms is None
        else f"{datetime.fromtimestamp(sent.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    )
    return (
        f"{sent.records:,} records, {sent.size_bytes:,} bytes, {sent.records_per_s:,.0f} rows/s, "
        f"log at {time}"
    )


def command(
    *,
    bootstrap: Annotated[str, typer.Option(help="host:port of any broker.")] = "127.0.0.1:9092",
    topic: Annotated[
        str, typer.Option(help="The topic; it is made if it is missing.")
    ] = "access_log",
    log_file: Annotated[Path, typer.Option(help="Lines in combined log format.")] = SAMPLE,
    speed: Annotated[str, typer.Option(help="x1, x100, x1000 ..., or max: no waits.")] = "max",
    size: Annotated[
        str, typer.Option(help="Bytes of values at most, 10G or 512M; empty: the file once.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Equal seeds give equal logs of a size.")] = 0,
    start: Annotated[
        str, typer.Option(help="Moves all times: the first becomes this (ISO), or now.")
    ] = "",
    partitions: Annotated[
        int, typer.Option(help="Of a topic that is made.", min=1, max=PARTITIONS_MAX)
    ] = PARTITIONS_DEFAULT,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "lz4",
    keyed: Annotated[
        bool, typer.Option("--keyed/--no-keys", help="Keys are clients: each has one partition.")
    ] = True,
    kafka: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the Kafka client, which is librdkafka.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Tell everything as JSON lines.")] = False,
) -> None:
    """Sends a web server's log into a topic, at a chosen speed and of a chosen size."""

    def tell(sent: Sent) -> None:
        typer.echo(json.dumps(asdict(sent)) if as_json else describe(sent), err=not as_json)

    stop = StopSignals()
    try:
        sample = _read(log_file)
        pace_speed, size_bytes, start_ms = _options(speed, size, start)
        settings = name_values(kafka or [], "--kafka")
        sender = Sender(bootstrap, topic, compression=compression, keyed=keyed, kafka=settings)
        TopicAdmin(bootstrap, settings).ensure(topic, partitions=partitions, configs={})
        first_ms = sample[0].time_ms if start_ms is None else start_ms
        done = sender.send_all(
            lines_of(sample, size_bytes=size_bytes, seed=seed, start_ms=start_ms),
            Pace(first_ms=first_ms, speed=pace_speed),
            stopping=stop.asked,
            tell=tell,
        )
    except HighwaterError as error:
        typer.echo(f"highwater-spark: {error}", err=True)
        # Not `ending`, which needs Spark.
        code = EXIT_LATER if isinstance(error, RetriableError) else EXIT_FAILED
        raise typer.Exit(EXIT_USAGE if isinstance(error, UsageError) else code) from error
    typer.echo(json.dumps(asdict(done)) if as_json else f"{topic}: {describe(done)}")


def _read(path: Path) -> tuple[LogLine, ...]:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            return read_sample((line.rstrip("\r\n") for line in lines), str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _options(speed: str, size: str, start: str) -> tuple[float | None, int | None, int | None]:
    try:
        found = parse_speed(speed)
    except ValueError as error:
        raise UsageError(f"--speed wants x100, x1000 or max, not {speed!r}") from error
    try:
        size_bytes = parse_size(size) if size else None
    except ValueError as error:
        raise UsageError(f"--size wants 10G or 512M, not {size!r}") from error
    return found, size_bytes, _start_ms(start)


def _start_ms(text: str) -> int | None:
    if not text:
        return None
    if text == "now":
        return int(datetime.now(UTC).timestamp()) * 1000
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--start wants a time in ISO 8601 or now, not {text!r}") from error
    # A time without a zone is UTC, as everywhere in the jobs.
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()) * 1000


if __name__ == "__main__":
    typer.run(command)
