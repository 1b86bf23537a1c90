"""What the commands of streaming jobs share: options, the start, progress, and how they end.

Exit codes are those of `ending`: 0 the work of `--once` is done, or SIGTERM or SIGINT ended the job after its
batch; 2 an option, a file or the checkpoint is wrong; 3 records were gone before they were read; 4 the stream failed;
75 the cluster is away, or another process has the checkpoint.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from highwater.model.errors import HighwaterError, UsageError
from highwater.spark import checkpoint, stream_quarantine
from highwater.spark.durations import parse_duration
from highwater.spark.ending import EXIT_GONE, exit_code
from highwater.spark.envelope import PARTITION_BY
from highwater.spark.events import EventFormat, of_records, parse_fields
from highwater.spark.options import kafka_options
from highwater.spark.page.files import PageFiles
from highwater.spark.page.view import View
from highwater.spark.patient_table import PatientTable
from highwater.spark.session import open_session
from highwater.spark.stop_signals import StopSignals
from highwater.spark.stream_errors import RecordsGone, explain
from highwater.spark.stream_page import StreamPage, StreamSoFar
from highwater.spark.stream_progress import StreamProgress, describe
from highwater.spark.stream_run import RunOptions, StreamRun, run_together
from highwater.spark.stream_source import (
    StreamSource,
    parse_starting,
    read_stream,
    resolve_starting,
)
from highwater.spark.stream_topics import StreamTopics
from highwater.spark.tables import Table, TableFormat, open_table
from highwater.spark.tables.hadoop_files import HadoopFiles
from highwater.spark.tables.local_lock import hold
from highwater.spark.topic_admin import TopicIdentity
from highwater.spark.topic_sink import TopicSink

OFFSETS_PER_BATCH: Final = 1_000_000
"""Some 250 MB of log lines: a batch that a small machine computes within a minute."""

AHEAD: Final = "5 minutes"
"""Clocks that are kept right differ by less than a second. A request within the limit brings the watermark
forward by it at most, which leaves half of the default of `--late` to requests that are really late."""

STREAM_SETTINGS: Final[Mapping[str, str]] = {
    # A batch that hangs does not hold the end of the job up for ever, as by default.
    "spark.sql.streaming.stopTimeout": "60s",
}

Bootstrap = Annotated[str, typer.Option(help="host:port of any broker.")]
Topic = Annotated[str, typer.Option(help="The topic with the requests.")]
Checkpoint = Annotated[
    str, typer.Option(help="Directory that says how far the stream is; the job goes on from it.")
]
Format = Annotated[TableFormat, typer.Option("--format", help="Of tables.")]
From = Annotated[
    str, typer.Option("--from", help="earliest, latest or a time (ISO); at the first start only.")
]
Ahead = Annotated[
    str,
    typer.Option(help="How far a request's time may be ahead of its record's, as '5 minutes'."),
]
Late = Annotated[str, typer.Option(help="How late requests may come, as '10 minutes'.")]
OffsetsPerBatch = Annotated[
    int, typer.Option("--max-offsets-per-batch", help="Records of a batch at most.", min=1)
]
Every = Annotated[float, typer.Option(help="Seconds between batches at least.", min=0)]
Once = Annotated[bool, typer.Option("--once", help="Read what is there, and end.")]
JsonNames = Annotated[
    str | None,
    typer.Option("--json-fields", help="Values are JSON; time=ts,latency_ms=took name its fields."),
]
Quarantine = Annotated[
    str | None,
    typer.Option(help="Table of records that are not in the format; the topic is read twice then."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Tell everything as JSON lines.")]
Kafka = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE for the Kafka clients, as for load.")
]
Jars = Annotated[
    Path | None, typer.Option(help="Directory of the connector's jars.", file_okay=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options that every streaming job has, as given."""

    bootstrap: str
    topic: str
    checkpoint: str
    table_format: TableFormat
    starting: str
    offsets_per_batch: int
    every_s: float
    once: bool
    json_fields: str | None
    ahead: str
    as_json: bool
    quarantine: str | None
    files: PageFiles
    kafka: tuple[str, ...]
    jars: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob:
    """A job that has started: its session and checkpoint, whose `writer` its tables know."""

    spark: SparkSession
    name: str
    options: StreamOptions
    writer: str
    identity: TopicIdentity
    topics: StreamTopics
    source: StreamSource
    format: EventFormat
    stop: StopSignals

    def events(self) -> DataFrame:
        """Returns the stream of requests."""
        return of_records(read_stream(self.spark, self.source), self.format)

    def table(self, path: str, *, partition_by: Sequence[str] = ()) -> Table:
        """Returns the table at a path, in the chosen format."""
        options = self.options
        return PatientTable(
            open_table(self.spark, options.table_format, path, partition_by=partition_by)
        )

    def sink(self, topic: str, *, configs: Mapping[str, str]) -> TopicSink:
        """Returns where to send records to a topic of one partition, which is made if it is missing."""
        self.topics.ensure(topic, partitions=1, configs=configs)
        return TopicSink(bootstrap=self.source.bootstrap, topic=topic, kafka=self.source.kafka)

    def say(self, document: dict[str, Any], line: str) -> None:
        """Tells something: JSON lines on standard output, text on standard error."""
        as_json = self.options.as_json
        typer.echo(json.dumps(document) if as_json else line, err=not as_json)

    def run(
        self,
        frame: DataFrame,
        sink: Callable[[DataFrame, int], None],
        *,
        view: Callable[[StreamSoFar], View],
        output_mode: str = "append",
        idle: Callable[[float], bool] = lambda _: False,
        heard: Callable[[StreamProgress], None] = lambda _: None,
    ) -> None:
        """Runs the query until it ends, and draws the page now and then, and at the end.

        `idle` says whether it has changed a table. `heard` gets each batch's progress, before `idle` is
        called behind that batch.
        """
        page = StreamPage(self.options.files, view)

        def tell(progress: StreamProgress) -> None:
            self.say({"progress": asdict(progress)}, describe(progress))
            heard(progress)
            page.told(progress)

        def look(idle_s: float) -> None:
            if idle(idle_s):
                page.changed()
            page.look()

        run = StreamRun(
            self._run_options(self.name, checkpoint.STREAM, output_mode),
            sink,
            stopping=self.stop.asked,
            tell=tell,
            idle=look,
            check=self._check,
        )
        runs = [(run, frame)]
        if self.options.quarantine is not None:
            runs.append(self._quarantine(self.options.quarantine))
        try:
            run_together(runs, stopping=self.stop.asked)
        except PySparkException:
            # A topic that is gone makes Spark say many things; some of them are also said of brokers that
            # have not heard of it yet.
            self._check()
            raise
        page.end()

    def _check(self) -> None:
        """A topic that is made anew has other records at the same offsets, and Spark would not notice."""
        self.topics.check(self.identity)

    def _run_options(self, name: str, directory: str, output_mode: str) -> RunOptions:
        return RunOptions(
            name=name,
            checkpoint=f"{self.options.checkpoint.rstrip('/')}/{directory}",
            once=self.options.once,
            every_s=self.options.every_s,
            output_mode=output_mode,
        )

    def _quarantine(self, path: str) -> tuple[StreamRun, DataFrame]:
        table = self.table(path, partition_by=PARTITION_BY)
        run = StreamRun(
            self._run_options(f"{self.name} quarantine", stream_quarantine.CHECKPOINT, "append"),
            stream_quarantine.QuarantineSink(table, self.writer).add,
            stopping=self.stop.asked,
            # Its progress would be taken for that of the job.
            tell=lambda _: None,
            check=self._check,
        )
        records = read_stream(self.spark, self.source, headers=True)
        rows = stream_quarantine.unfit(
            records, self.format, topic=self.identity.topic, topic_id=self.identity.topic_id
        )
        return run, rows


@contextmanager
def exit_codes(topic: str, bootstrap: str) -> Iterator[None]:
    """Tells an error in one line, and ends the command with its code."""
    try:
        yield
    except (HighwaterError, PySparkException, Py4JError, OSError) as error:
        told = explain(error, topic=topic, bootstrap=bootstrap)
        typer.echo(f"highwater-spark: {told}", err=True)
        code = EXIT_GONE if isinstance(told, RecordsGone) else exit_code(told)
        raise typer.Exit(code) from error


@contextmanager
def started(
    name: str, options: StreamOptions, settings: Mapping[str, str] | None = None
) -> Iterator[StreamJob]:
    """Starts a job called `name` and stops its session in the end. Raises HighwaterError.

    `settings` are options that must not change as long as the checkpoint is the same. What can be wrong
    without Spark is looked at before Spark starts.
    """
    source = StreamSource(
        bootstrap=options.bootstrap,
        topic=options.topic,
        starting=parse_starting(options.starting),
        offsets_per_batch=options.offsets_per_batch,
        kafka=kafka_options(list(options.kafka)),
    )
    wanted = EventFormat(
        names=None if options.json_fields is None else parse_fields(options.json_fields),
        ahead_s=parse_duration(options.ahead, "--ahead"),
    )
    if not options.checkpoint:
        raise UsageError("--checkpoint is needed: a directory of the job's own")
    options.files.prepare()
    spark = open_session(
        f"{name} {options.topic}", jars_directory=options.jars, settings=STREAM_SETTINGS
    )
    # PySpark takes SIGINT when it starts; ours come behind it.
    stop = StopSignals()
    try:
        with (
            StreamTopics(spark, source.bootstrap, source.kafka) as topics,
            hold(options.checkpoint, "stream"),
        ):
            who = topics.identify(options.topic)
            files = HadoopFiles(spark, options.checkpoint)
            mark = checkpoint.claim(files, options.checkpoint, name, who, settings)
            if options.quarantine is not None:
                source = _same_start(source, topics, files, options.checkpoint)
            yield StreamJob(
                spark=spark,
                name=name,
                options=options,
                writer=mark.writer,
                identity=who,
                topics=topics,
                source=source,
                format=wanted,
                stop=stop,
            )
    finally:
        spark.stop()


def _same_start(
    source: StreamSource, topics: StreamTopics, files: HadoopFiles, place: str
) -> StreamSource:
    """Returns the source with offsets to begin at, the same ones at each start of this checkpoint.

    The job and its quarantine are two queries. If each looked up for itself where `latest` is, what comes in
    between would be read by the job alone; after a kill before the second look that is a lot.
    """
    partitions = topics.topics([source.topic])[source.topic].partitions
    begin = checkpoint.starts(
        files, place, partitions, lambda: resolve_starting(topics, source, partitions)
    )
    return replace(source, starting=begin)
