"""`python -m tests.bench.nodes`: the same loads on one, two and three nodes of this host.

Every node is a process with its own gateway, and so has one loop. Topics have one replica and twelve
partitions, which the nodes share evenly. The clusters run one by one, in several rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console

from tests.bench import load
from tests.bench.command_line import command_of, parser_of, teller
from tests.bench.document import (
    DOCUMENT,
    Section,
    machine,
    markdown_table,
    rich_table,
    save_json,
    write_section,
)
from tests.bench.peer import Peer
from tests.bench.peers import make_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.bench.session import PREPARED_BATCH_BYTES, PRIME_TIMEOUT_S, topic_configs
from tests.bench.workloads import Workload, select

MODULE = "tests.bench.nodes"
SECTION = Section(name="nodes", target="bench-nodes")
PEERS = ("combined", "combined2", "combined3")
ROWS = (
    "produce-16k-10x8/p12/plain",
    "produce-200b-50x8/p12/plain",
    "fetch-16k-10x1/p12/plain",
    "latency-200b-1000rps/p12/plain",
)
PRIME_BATCHES_PER_PARTITION = 3
HEADER = ["row", "unit", "nodes", "median (range)", "to one node", "p99, us",
          "server CPU, us a request"]  # fmt: skip


class LeadersElsewhere(RuntimeError):
    """The generator did not find partitions on every node, so the figures would mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One measured window: `value` is in the row's unit, `server_cpu_us` is per request."""

    row: str
    nodes: int
    value: float
    p99_us: float
    server_cpu_us: float


def measure(
    peer: Peer, rows: Sequence[Workload], *, seconds: float, tell: Callable[[str], None]
) -> list[Window]:
    """Starts the cluster, measures one window of each row, ends it. Passes on all errors."""
    peer.start()
    try:
        found = []
        for row in rows:
            found.append(_window(peer, row, seconds))
            tell(f"  {peer.name}, {row.name}: {found[-1].value:,.0f} {row.metric.value}")
        return found
    finally:
        peer.stop()


def _window(peer: Peer, row: Workload, seconds: float) -> Window:
    target = load.Target(bootstrap=peer.bootstrap, topic=row.topic)
    peer.create_topic(row.topic, row.partitions, topic_configs(row))
    preloaded = row.preload_bytes_per_partition // PREPARED_BATCH_BYTES
    load.send(
        target,
        partitions=row.partitions,
        batch_bytes=PREPARED_BATCH_BYTES,
        requests=row.partitions * max(PRIME_BATCHES_PER_PARTITION, preloaded),
        connections=peer.nodes,
        wait_s=PRIME_TIMEOUT_S,
    )
    load.run(row, target, seconds=seconds, warmup_seconds=0)
    before = peer.cpu_seconds()
    result = load.run(row, target, seconds=seconds, warmup_seconds=0)
    after = peer.cpu_seconds()
    peer.delete_topic(row.topic)
    if result.brokers != peer.nodes:
        raise LeadersElsewhere(f"{result.brokers} of {peer.nodes} nodes of {peer.name} lead")
    assert before is not None
    assert after is not None
    return Window(
        row=row.name,
        nodes=peer.nodes,
        value=result.value(row.metric),
        p99_us=result.latency_us["p99"],
        server_cpu_us=(after - before) / result.requests * 1e6,
    )


def table(rows: Sequence[Workload], windows: Sequence[Window]) -> list[list[str]]:
    """One line per row and number of nodes; see HEADER. The ratio is that of medians."""
    lines = []
    for row in rows:
        of_row = [each for each in windows if each.row == row.name]
        one = [each.value for each in of_row if each.nodes == 1]
        for nodes in sorted({each.nodes for each in of_row}):
            mine = [each for each in of_row if each.nodes == nodes]
            values = [each.value for each in mine]
            lines.append(
                [
                    row.name,
                    row.metric.value,
                    str(nodes),
                    f"{median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})",
                    f"{median(values) / median(one):.2f}" if one else "-",
                    f"{median(each.p99_us for each in mine):,.0f}",
                    f"{median(each.server_cpu_us for each in mine):,.1f}",
                ]
            )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0; errors of a cluster are passed on."""
    parser = parser_of(MODULE, __doc__, quick="one short round")
    parser.add_argument("--rounds", type=int, default=5, help="of all clusters (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a window (2)")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    load.build()
    rows = select(ROWS)
    windows: list[Window] = []
    for _ in range(1 if options.quick else options.rounds):
        for name in PEERS:
            seconds = 0.5 if options.quick else options.seconds
            windows += measure(make_peer(name), rows, seconds=seconds, tell=teller(console))
    lines = table(rows, windows)
    console.print(rich_table("Nodes on one host", HEADER, lines))
    command = command_of(MODULE, arguments)
    content = {
        "command": command,
        "machine": machine(),
        "windows": [asdict(each) for each in windows],
    }
    console.print(f"Every sample: {save_json('nodes-', content)}")
    if options.write_document:
        text = [f"Command: `{command}`", "", *(f"- {line}" for line in machine())]
        text += ["", *markdown_table(HEADER, lines)]
        write_section(DOCUMENT, SECTION, "\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
