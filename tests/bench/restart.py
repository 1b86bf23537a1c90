"""`python -m tests.bench.restart`: a killed node with much data, and growing partition counts.

Restart: 1 000, then 10 000 partitions and 10 GB on one node, kill -9, and the time from the start
of the process until every partition has acknowledged a write; with three nodes, until the node is
back in every ISR. Growth: the same load on 10, 1 000 and 5 000 partitions. Peers run one by one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.console import Console

from tests.bench import growth, load, node_restart
from tests.bench.command_line import command_of, parser_of, teller
from tests.bench.document import (
    DOCUMENT,
    Section,
    machine,
    markdown_table,
    rich_table,
    save_json,
    with_limit,
    write_section,
)
from tests.bench.growth import GrowthResult
from tests.bench.node_restart import RestartResult
from tests.bench.peer import BreakablePeer
from tests.bench.peer_highwater import HIGHWATER_COMMANDS
from tests.bench.peers import make_breakable_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.bench.workloads import REPLICATION_FACTOR

MODULE = "tests.bench.restart"
DEFAULT_PEERS = "combined,services,kafka"
DEFAULT_GROWTH_PEERS = "combined3,services3,kafka3"
SECTION = Section(name="restart and growth", target="bench-restart")
RESTART_PARTITIONS = (1_000, 10_000)
TARGET_SERVE_S = 5.0
DISK_SLACK_BYTES = 15 * 10**9
RESTART_HEADER = ["peer", "partitions", "GB", "serves after, s (median)", "worst, s",
                  "resident after, MB"]  # fmt: skip
GROWTH_HEADER = ["partitions", "peer", "replicas", "MB/s", "req/s", "p99, us",
                 "resident before the load, MB", "after, MB"]  # fmt: skip


def restart_table(results: Sequence[RestartResult]) -> list[list[str]]:
    """One line per peer; see RESTART_HEADER."""
    return [
        [
            each.peer,
            f"{each.partitions:,}",
            f"{each.loaded_bytes / 1e9:.1f}",
            with_limit(median(each.serve_s), _target(each), ".2f"),
            with_limit(max(each.serve_s), _target(each), ".2f"),
            _megabytes(each.idle_bytes),
        ]
        for each in results
    ]


def growth_table(results: Sequence[GrowthResult]) -> list[list[str]]:
    """One line per size and peer; see GROWTH_HEADER."""
    return [
        [
            f"{each.partitions:,}",
            each.peer,
            str(each.replication),
            f"{each.mb_per_s:,.0f}",
            f"{each.requests_per_s:,.0f}",
            f"{each.p99_us:,.0f}",
            _megabytes(each.idle_bytes),
            _megabytes(each.loaded_bytes),
        ]
        for each in results
    ]


def needed_bytes(peers: Sequence[BreakablePeer], total_bytes: int) -> int:
    """The disk space of the largest peer: they run one after the other."""
    copies = max((REPLICATION_FACTOR if peer.nodes > 1 else 1 for peer in peers), default=0)
    return copies * total_bytes + DISK_SLACK_BYTES


def markdown(
    command: str,
    restarts: Sequence[RestartResult],
    grown: Sequence[GrowthResult],
    problems: Sequence[str],
) -> str:
    """The section of docs/benchmarks.md."""
    versions = {each.peer: each.version for each in restarts}
    versions |= {each.peer: each.version for each in grown}
    parts = [f"Command: `{command}`", "", *(f"- {line}" for line in machine())]
    parts += [f"- {peer}: {version}" for peer, version in versions.items()]
    parts += ["", *markdown_table(RESTART_HEADER, restart_table(restarts))]
    parts += ["", *markdown_table(GROWTH_HEADER, growth_table(grown))]
    if problems:
        parts += ["", "Failed:", "", *(f"- {problem}" for problem in problems)]
    return "\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 if a peer failed, or 2 for an invalid command line."""
    options = _parser().parse_args(arguments)
    try:
        peers = _peers(options.peers)
        growing = _peers(options.growth_peers)
        counts = [int(text) for text in options.partition_counts.split(",")]
    except ValueError as error:
        sys.stderr.write(f"restart: {error}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 160)
    total_bytes = round((0.2 if options.quick else options.gigabytes) * 1e9)
    _check_disk(needed_bytes(peers, total_bytes))
    load.build()
    problems: list[str] = []
    restarts: list[RestartResult] = []
    restart_counts = [100] if options.quick else options.partitions
    for partitions in restart_counts:
        for peer in peers:
            with _Guard(f"restart of {peer.name} with {partitions} partitions", problems):
                restarts.append(
                    node_restart.measure(
                        peer,
                        partitions=partitions,
                        total_bytes=total_bytes,
                        rounds=1 if options.quick else options.rounds,
                        tell=teller(console),
                    )
                )
    grown: list[GrowthResult] = []
    for partitions in counts[:1] if options.quick else counts:
        for peer in growing:
            with _Guard(f"{partitions} partitions on {peer.name}", problems):
                grown.append(
                    growth.measure(
                        peer,
                        partitions,
                        windows=1 if options.quick else options.windows,
                        seconds=1.0 if options.quick else options.seconds,
                        warmup_seconds=2.0 if options.quick else options.warmup_seconds,
                        tell=teller(console),
                    )
                )
    command = command_of(MODULE, arguments)
    return _finish(console, command, restarts, grown, problems, document=options.write_document)


class _Guard:
    """Catches one peer's failure, so that the others are measured; reports it at the end."""

    def __init__(self, what: str, problems: list[str]) -> None:
        self._what = what
        self._problems = problems

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._problems.append(f"{self._what}: {type(error).__name__}: {error}")
        return True


def _finish(
    console: Console,
    command: str,
    restarts: Sequence[RestartResult],
    grown: Sequence[GrowthResult],
    problems: Sequence[str],
    *,
    document: bool,
) -> int:
    if restarts:
        console.print(rich_table("Restart", RESTART_HEADER, restart_table(restarts)))
    if grown:
        console.print(rich_table("Growth", GROWTH_HEADER, growth_table(grown)))
    for problem in problems:
        console.print(problem, markup=False, style="red")
    content = {
        "command": command,
        "machine": machine(),
        "restarts": [asdict(each) for each in restarts],
        "growth": [asdict(each) for each in grown],
        "problems": list(problems),
    }
    console.print(f"Every sample: {save_json('restart-', content)}")
    if document:
        write_section(DOCUMENT, SECTION, markdown(command, restarts, grown, problems))
    return 1 if problems else 0


def _target(result: RestartResult) -> float | None:
    """The target of the smaller size; ten times as many partitions have none."""
    ours = result.peer in HIGHWATER_COMMANDS
    return TARGET_SERVE_S if ours and result.partitions <= RESTART_PARTITIONS[0] else None


def _counts(text: str) -> list[int]:
    return [int(count) for count in text.split(",")]


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.0f}"


def _peers(text: str) -> list[BreakablePeer]:
    return [] if text == "none" else [make_breakable_peer(name) for name in text.split(",")]


def _check_disk(needed: int) -> None:
    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise SystemExit(
            f"restart: {free / 1e9:.0f} GB free in {place}, {needed / 1e9:.0f} GB may be needed"
        )


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(MODULE, __doc__, quick="little of each")
    every = "embedded, combined, services, combined3, services3, kafka, kafka3, or 'none'"
    parser.add_argument("--peers", default=DEFAULT_PEERS, help=f"to be killed: {every}")
    parser.add_argument("--growth-peers", default=DEFAULT_GROWTH_PEERS, help=f"to grow: {every}")
    parser.add_argument(
        "--partitions",
        type=_counts,
        default=list(RESTART_PARTITIONS),
        help="of the killed node, one row each (1000,10000)",
    )
    parser.add_argument("--gigabytes", type=float, default=10.0, help="in its log (10)")
    parser.add_argument("--rounds", type=int, default=3, help="kills of each peer (3)")
    parser.add_argument(
        "--partition-counts",
        default=",".join(map(str, growth.PARTITION_COUNTS)),
        help="sizes to grow through (10,1000,5000)",
    )
    parser.add_argument("--windows", type=int, default=3, help="measured windows of a size (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a window (4)")
    parser.add_argument("--warmup-seconds", type=float, default=15.0, help="of a size (15)")
    return parser


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
