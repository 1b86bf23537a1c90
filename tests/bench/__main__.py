"""`python -m tests.bench`: Highwater and Apache Kafka side by side."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from tests.bench import load, report, startup
from tests.bench.peers import ApacheKafka, Peer, make_peer
from tests.bench.session import Session, Settings
from tests.bench.workloads import all_workloads, select
from tests.support.maven import CACHE, REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "benchmarks.md"
WARM_UP_ROWS = ("produce-16k-10x8/p12/plain", "produce-200b-50x8/p12/plain")
DEFAULT_ROWS = "*/p12/plain"
QUICK = Settings(pairs=1, seconds=1.0, warmup_seconds=0.5, first_warmup_seconds=2.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 when a peer failed in a row."""
    options = _parser().parse_args(arguments)
    if options.list:
        sys.stdout.writelines(f"{row.name}\n" for row in all_workloads())
        return 0
    settings = QUICK if options.quick else Settings()
    settings = Settings(
        pairs=options.pairs or settings.pairs,
        first_warmup_seconds=settings.first_warmup_seconds,
        seconds=options.seconds or settings.seconds,
        warmup_seconds=(
            settings.warmup_seconds if options.warmup_seconds is None else options.warmup_seconds
        ),
    )
    try:
        workloads = () if options.rows == "none" else select(options.rows.split(","))
        peers = [make_peer(text) for text in [*options.peers.split(","), *options.peer]]
    except ValueError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 220)
    words = sys.argv[1:] if arguments is None else arguments
    results = report.Results(
        command=shlex.join(["python", "-m", "tests.bench", *words]),
        settings=settings,
        baseline=ApacheKafka.name if any(p.name == ApacheKafka.name for p in peers) else None,
    )
    load.build()
    for peer in peers:
        results.versions[peer.name] = peer.version()
    if not options.no_startup:
        console.print("Start and idle memory")
        for peer in peers:
            found = startup.measure(peer, settings.pairs, console.print)
            if found is not None:
                results.startups[peer.name] = found
    if workloads:
        with contextlib.ExitStack() as stack:
            for peer in peers:
                stack.callback(peer.stop)
                peer.start()
            session = Session(peers, settings, console.print)
            console.print("Warming")
            session.warm_up(select(WARM_UP_ROWS))
            for number, workload in enumerate(workloads, 1):
                console.print(f"[{number}/{len(workloads)}] {workload.name}", markup=False)
                results.rows.append(session.measure(workload))
            _note_memory(peers, results)
            session.release()
    return _finish(results, console, document=options.write_document)


def _note_memory(peers: Sequence[Peer], results: report.Results) -> None:
    for peer in peers:
        resident = peer.resident_bytes()
        if resident is not None:
            results.memory_after[peer.name] = resident


def _finish(results: report.Results, console: Console, *, document: bool) -> int:
    for table in report.rich_tables(results):
        console.print(table)
    saved = CACHE / "bench" / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(json.dumps(report.as_json(results), indent=1))
    console.print(f"Every sample: {saved}")
    if document:
        report.write_markdown(DOCUMENT, results)
        console.print(f"Written: {DOCUMENT}")
    failed = [row for row in results.rows if row.failures]
    for row in failed:
        for peer, text in row.failures.items():
            console.print(f"{row.workload.name}, {peer}: {text}", markup=False, style="red")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--peers",
        default="embedded,services",
        help="comma-separated: embedded, services, kafka, external:HOST:PORT[:no-metadata]",
    )
    parser.add_argument(
        "--peer", action="append", default=[], help="one more peer, as `make bench PEER=kafka`"
    )
    parser.add_argument(
        "--rows", default=DEFAULT_ROWS, help="comma-separated shell patterns, or 'none'"
    )
    parser.add_argument("--list", action="store_true", help="print all rows and end")
    parser.add_argument("--pairs", type=int, help="measured windows per peer and row (5)")
    parser.add_argument("--seconds", type=float, help="length of a window (4)")
    parser.add_argument("--warmup-seconds", type=float, help="before each window (1)")
    parser.add_argument("--quick", action="store_true", help="1 pair of 1 s: does it work at all")
    parser.add_argument("--no-startup", action="store_true", help="skip start time and idle memory")
    parser.add_argument(
        "--write-document", action="store_true", help=f"put the results into {DOCUMENT.name}"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
