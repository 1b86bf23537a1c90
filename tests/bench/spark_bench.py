"""`python -m tests.bench.spark_bench`: what Spark does with Highwater and with Apache Kafka, in one run.

Each of ours runs beside Kafka, with the same bytes. Only two brokers run at a time: the page cache of a
small machine could not hold the data of more. docs/benchmarks.md has the method of every row.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich.console import Console

from tests.bench import load
from tests.bench.command_line import command_of, parser_of, teller
from tests.bench.document import DOCUMENT, machine, rich_table, save_json, write_section
from tests.bench.peers import make_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.bench.spark_comparison import HEADER, Comparison, markdown, pair_up, table
from tests.bench.spark_load import Loads
from tests.bench.spark_mirror import Mirrors
from tests.bench.spark_pair import Pair, Scale
from tests.bench.spark_rows import ROWS, SECTIONS, Kind, Row, cut_sections, select
from tests.bench.spark_session import bench_session, check_disk, scratch_directory
from tests.bench.spark_stream import Streams, StreamScale

MODULE = "tests.bench.spark_bench"
DEFAULT_PEERS = "combined,services,embedded,kafka"
DEFAULT_ROWS = "*"
QUICK = Scale(
    gigabytes=0.02,
    mirror_gigabytes=0.02,
    pairs=1,
    # Every rate counts as steady: a machine that has no time for it would take long to find one.
    stream=StreamScale(
        rate=500,
        seconds=5,
        warm_up_s=3,
        first_rate=500,
        step_s=6,
        steps_max=1,
        growth_max=math.inf,
        sent_min=0,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; errors of a broker or of Spark are passed on."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.list:
        console.print("\n".join(row.name for row in ROWS), markup=False)
        return 0
    rows = select(options.rows.split(","))
    if options.write_document and (cut := cut_sections(rows)):
        raise SystemExit(f"sections are written whole, and rows of these are left out: {cut}")
    scale = QUICK if options.quick else _scale(options)
    check_disk(scale.disk_bytes)
    load.build()
    found: dict[Kind, list[Comparison]] = {}
    is_whole = False
    try:
        _measure(pair_up(options.peers.split(",")), rows, scale, found, teller(console))
        is_whole = True
    finally:
        # What was measured before an error is kept, but not published.
        write = options.write_document and is_whole
        _publish(found, scale, command_of(MODULE, arguments), console, write=write)
    return 0


def _measure(
    pairs: Sequence[Sequence[str]],
    rows: Sequence[Row],
    scale: Scale,
    found: dict[Kind, list[Comparison]],
    tell: Callable[[str], None],
) -> None:
    """Fills `found` pair by pair."""
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(scratch_directory())
        spark = stack.enter_context(bench_session(scratch))
        loads = Loads(spark, scratch, tell)
        streams = Streams(spark, scratch, scale.stream, tell)
        mirrors = Mirrors(spark, scratch, scale.mirror_gigabytes, tell)
        for names in pairs:
            with contextlib.ExitStack() as running:
                peers = [make_peer(name) for name in names]
                for peer in peers:
                    running.callback(peer.stop)
                    peer.start()
                # Clients that made topics are in cycles: alive, they complain of brokers that have ended.
                running.callback(gc.collect)
                pair = Pair(
                    spark=spark, peers=peers, loads=loads, streams=streams, mirrors=mirrors,
                    scratch=scratch, scale=scale, tell=tell,
                )  # fmt: skip
                for row, comparison in pair.measure(rows):
                    found.setdefault(row.kind, []).append(comparison)


def _publish(
    found: dict[Kind, list[Comparison]],
    scale: Scale,
    command: str,
    console: Console,
    *,
    write: bool,
) -> None:
    for kind, comparisons in found.items():
        console.print(rich_table(SECTIONS[kind].name, HEADER, table(comparisons)))
        if write:
            text = markdown(command, comparisons, scale.notes(kind))
            write_section(DOCUMENT, SECTIONS[kind], text)
    content = {
        "command": command,
        "machine": machine(),
        "comparisons": [asdict(each) for several in found.values() for each in several],
    }
    console.print(f"Every value: {save_json('spark-', content)}")


def _scale(options: argparse.Namespace) -> Scale:
    stream = StreamScale(
        rate=options.rate,
        seconds=options.stream_seconds,
        first_rate=options.first_rate,
        step_s=options.step_seconds,
    )
    return Scale(
        gigabytes=options.gigabytes,
        mirror_gigabytes=options.mirror_gigabytes,
        pairs=options.pairs,
        stream=stream,
    )


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(MODULE, __doc__, quick=f"one pair with {QUICK.gigabytes} GB")
    parser.add_argument("--list", action="store_true", help="print the names of the rows, and end")
    parser.add_argument("--rows", default=DEFAULT_ROWS, help=f"shell patterns ({DEFAULT_ROWS})")
    parser.add_argument("--gigabytes", type=float, default=5.0, help="of values in a topic (5)")
    parser.add_argument("--mirror-gigabytes", type=float, default=1.0, help="to be copied (1)")
    parser.add_argument("--pairs", type=int, default=3, help="measured runs of each broker (3)")
    parser.add_argument("--rate", type=float, default=2000, help="of records, for latency (2000)")
    parser.add_argument("--stream-seconds", type=float, default=60, help="for latency (60)")
    parser.add_argument("--first-rate", type=float, default=5000, help="of the steps (5000)")
    parser.add_argument("--step-seconds", type=float, default=30, help="of each step (30)")
    parser.add_argument(
        "--peers", default=DEFAULT_PEERS, help=f"as of tests.bench ({DEFAULT_PEERS})"
    )
    return parser


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
