"""The demo from start to end: what happens in which order, and when it counts as a success."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from highwater.spark.report import CHART_FILE
from tools.demo import checks
from tools.demo.broker import Broker
from tools.demo.consuming import read_back
from tools.demo.errors import EXIT_FAILED, DemoError, UsageError
from tools.demo.options import INDEX_FILE, Options
from tools.demo.producing import create_topic, load
from tools.demo.screen import Screen
from tools.demo.spark_jobs import SparkJobs

PARTITIONS = 6
TOP_PATHS = 8
SERVE_POLL_S = 0.5


def play(options: Options, screen: Screen) -> int:
    """Plays everything and returns the exit code: 0 only if every check held. Raises DemoError.

    KeyboardInterrupt ends it anywhere; the broker that it started is ended on every way out.
    """
    lines = read_lines(options.log_file)
    with ExitStack() as stack:
        broker = None
        if options.bootstrap is None:
            broker = stack.enter_context(
                Broker(
                    host=options.host,
                    port=options.port,
                    data_dir=options.data_dir,
                    log_path=options.output_dir / "broker.log",
                )
            )
            with screen.step("Starting the broker") as step:
                broker.start()
                step.done = f"{options.address}, pid {broker.pid}, data in {options.data_dir}"
        try:
            held = round_trip(options, screen, lines)
        except DemoError as error:
            if broker is None or isinstance(error, UsageError):
                raise
            broker.check_running()  # Its end explains the failure better.
            raise DemoError(f"{error}\n(the broker's log: {broker.log_path})") from error
        if not held:
            return EXIT_FAILED
        if broker is not None and not options.once:
            serve(options, screen, broker)
    return 0


def read_lines(path: Path) -> list[bytes]:
    """Returns the lines of the log. Raises UsageError if there is none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if not lines:
        raise UsageError(f"{path} is empty")
    return lines


def round_trip(options: Options, screen: Screen, lines: Sequence[bytes]) -> bool:
    """Sends the log through the broker, has Spark report on it; True if all checks held."""
    # Each run looks only at its own records: the topic may hold those of earlier runs.
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    address, topic = options.address, options.topic
    with screen.step(f"Creating topic {topic}, {PARTITIONS} partitions") as step:
        created = create_topic(address, topic, PARTITIONS)
        step.done = "" if created else "there from an earlier run"
    with screen.step("Loading the log", total=len(lines)) as step:
        acknowledged = load(address, topic, lines, run_id=run_id, advance=step.advance)
        step.done = f"{acknowledged.count:,} records"
    with screen.step("Reading it back through a group", total=len(lines)) as step:
        read = read_back(
            address,
            topic,
            group=f"{topic}-demo-{run_id}",
            run_id=run_id,
            partitions=PARTITIONS,
            end_offsets=acknowledged.end_offsets(),
            advance=step.advance,
        )
        step.done = f"{read.count:,} records"
    output = options.output_dir / "access_log"
    jobs = SparkJobs(
        address,
        topic,
        run_id=run_id,
        output=output,
        top_paths=TOP_PATHS,
        log_path=options.output_dir / "spark.log",
    )
    with jobs:
        with screen.step("Spark: traffic, top paths, status codes") as step:
            report = jobs.report()
            step.done = f"{report.records:,} records"
        with screen.step("Spark: loading the topic into a table") as step:
            loaded = jobs.loaded()
            step.done = f"{loaded['rows']:,} rows, lag {loaded['lag']:,}"
        with screen.step("Spark: comparing the table with the log") as step:
            compared = jobs.audited()
            step.done = f"{compared['records']:,} records"
    expected = checks.count_file(lines, topic, top_paths=TOP_PATHS)
    results = [
        checks.check_acknowledged(lines, acknowledged),
        checks.check_count(lines, read),
        checks.check_content(lines, acknowledged, read),
        checks.check_committed(acknowledged.end_offsets(), read),
        checks.check_report(expected, report),
        checks.check_loaded(expected, loaded),
        checks.check_audit(compared),
    ]
    screen.report(report)
    screen.checks(results)
    screen.files(output / INDEX_FILE, output / CHART_FILE, output)
    return all(check.holds for check in results)


def serve(options: Options, screen: Screen, broker: Broker) -> None:
    """Says how to connect and returns at Ctrl-C. Raises DemoError if the broker ends by itself."""
    try:
        screen.how_to_connect(options.address, options.topic, broker.log_path)
        while True:
            broker.check_running()
            time.sleep(SERVE_POLL_S)
    except KeyboardInterrupt:
        screen.heading("Stopping")
