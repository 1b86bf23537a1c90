"""`python -m tests.bench`: Highwater and Apache Kafka side by side."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from tests.bench import load, report, startup
from tests.bench.credentials import made_credentials
from tests.bench.document import DOCUMENT, Section, save_json, write_section
from tests.bench.peer import Listeners, Peer
from tests.bench.peer_limit import LIMIT
from tests.bench.peers import baseline_of, default_peers, limit_of, make_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.bench.session import Session, Settings
from tests.bench.workloads import NODES_OF_REPLICATED, Security, Workload, all_workloads, select

DEFAULT_ROWS = "*/p12/plain,*/rf3/plain,txn-*,*/tls,*/sasl"
QUICK = Settings(
    pairs=1, seconds=1.0, warmup_seconds=0.5, first_warmup_seconds=2.0, idle_seconds=1.0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind:
    """Peers with the same number of nodes: their title, warm-up and section of the document."""

    nodes: int
    title: str
    section: Section
    warm_up_rows: tuple[str, ...]
    warm_up_transactions: tuple[str, ...] = ()
    """Additional ones, if there are rows with transactions."""

    def warm_up(self, rows: Sequence[Workload]) -> tuple[Workload, ...]:
        """What every peer runs before these rows."""
        names = self.warm_up_rows
        if any(row.transactions is not None for row in rows):
            names += self.warm_up_transactions
        return select(names)


GROUP_KINDS = (
    GroupKind(
        nodes=1,
        title="one node",
        section=Section(name="results", target="bench"),
        warm_up_rows=("produce-16k-10x8/p12/plain", "produce-200b-50x8/p12/plain"),
        warm_up_transactions=("txn-200b-100x50/p12/commit",),
    ),
    GroupKind(
        nodes=NODES_OF_REPLICATED,
        title="three nodes, replication factor 3, acks=all",
        section=Section(name="results of three nodes", target="bench"),
        warm_up_rows=("produce-16k-10x8/rf3/plain", "produce-200b-50x8/rf3/plain"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One group, whose peers run at the same time; groups run one after the other."""

    kind: GroupKind
    peers: tuple[Peer, ...]
    workloads: tuple[Workload, ...]


def make_plans(peers: Sequence[Peer], workloads: Sequence[Workload]) -> list[Plan]:
    """The groups with rows to run; without workloads, all peers, for start and memory.

    The limit, which has one node, runs the rows of three beside those that have them.
    """
    plans = []
    for kind in GROUP_KINDS:
        rows = tuple(row for row in workloads if row.nodes == kind.nodes)
        fitting = [peer for peer in peers if peer.nodes == kind.nodes]
        if not fitting or (workloads and not rows):
            continue
        if rows:
            fitting = [peer for peer in peers if peer in fitting or peer.name == LIMIT]
        plans.append(Plan(kind=kind, peers=tuple(fitting), workloads=rows))
    return plans


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 if a peer failed in a row, or 2 for an invalid command line."""
    options = _parser().parse_args(arguments)
    if options.list:
        sys.stdout.writelines(f"{row.name}\n" for row in all_workloads())
        return 0
    try:
        workloads = () if options.rows == "none" else select(options.rows.split(","))
        names = options.peers.split(",") if options.peers else default_peers(workloads)
        plans = make_plans([make_peer(text) for text in [*names, *options.peer]], workloads)
        if not plans:
            raise ValueError("no peer has as many nodes as the rows need")
    except ValueError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 220)
    words = sys.argv[1:] if arguments is None else arguments
    results = report.Results(
        command=shlex.join(["python", "-m", "tests.bench", *words]), settings=_settings(options)
    )
    load.build()
    left_out = len(workloads) - sum(len(plan.workloads) for plan in plans)
    if left_out > 0:
        console.print(f"{left_out} rows left out: no peer has as many nodes as they need")
    for plan in plans:
        _run(plan, results, console, measure_startup=not options.no_startup)
    return _finish(results, console, document=options.write_document)


def _settings(options: argparse.Namespace) -> Settings:
    base = QUICK if options.quick else Settings()
    given = options.warmup_seconds
    return Settings(
        pairs=options.pairs or base.pairs,
        first_warmup_seconds=base.first_warmup_seconds,
        idle_seconds=base.idle_seconds,
        seconds=options.seconds or base.seconds,
        warmup_seconds=base.warmup_seconds if given is None else given,
    )


def _run(plan: Plan, results: report.Results, console: Console, *, measure_startup: bool) -> None:
    """Measures one group, from the start of its peers to their end."""
    group = report.Group(
        title=plan.kind.title,
        section=plan.kind.section,
        peers=tuple(peer.name for peer in plan.peers),
        baseline=baseline_of(plan.peers),
        limit=limit_of(plan.peers),
    )
    results.groups.append(group)
    for peer in plan.peers:
        results.versions[peer.name] = peer.version()
    if measure_startup:
        console.print(f"Start and idleness, {group.title}")
        # The limit may be in both groups.
        for peer in [each for each in plan.peers if each.name not in results.startups]:
            found = startup.measure(
                peer,
                results.settings.pairs,
                console.print,
                idle_seconds=results.settings.idle_seconds,
            )
            if found is not None:
                results.startups[peer.name] = found
    if not plan.workloads:
        return
    with contextlib.ExitStack() as stack:
        add_listeners(plan, stack)
        for peer in plan.peers:
            stack.callback(peer.stop)
            peer.start()
        session = Session(plan.peers, results.settings, console.print)
        console.print(f"Warming, {group.title}")
        session.warm_up(plan.kind.warm_up(plan.workloads))
        for number, workload in enumerate(plan.workloads, 1):
            console.print(f"[{number}/{len(plan.workloads)}] {workload.name}", markup=False)
            group.rows.append(session.measure(workload))
        for peer in plan.peers:
            resident = peer.resident_bytes()
            if resident is not None:
                group.memory_after[peer.name] = resident
        session.release()


def add_listeners(plan: Plan, stack: contextlib.ExitStack) -> None:
    """Peers get those that the rows need, and no others: a listener has threads in Kafka."""
    needed = {workload.security for workload in plan.workloads}
    others = tuple(each for each in Security if each in needed - {Security.PLAINTEXT})
    if not others:
        return
    listeners = Listeners(securities=others, credentials=stack.enter_context(made_credentials()))
    for peer in plan.peers:
        if peer.can_be_secured:
            peer.listeners = listeners


def _finish(results: report.Results, console: Console, *, document: bool) -> int:
    for table in report.rich_tables(results):
        console.print(table)
    console.print(f"Every sample: {save_json('', report.as_json(results))}")
    if document:
        for group in results.groups:
            write_section(DOCUMENT, group.section, report.markdown(results, group))
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
        help="comma-separated: embedded, combined, services, combined3, services3, kafka, kafka3, "
        "limit (a C server of one thread that shows what this machine could do), "
        "external:HOST:PORT[:no-metadata][:pid=N][:nodes=N]; when absent those of ours that the "
        "rows need",
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
    parser.add_argument("--no-startup", action="store_true", help="skip start time and idleness")
    parser.add_argument(
        "--write-document", action="store_true", help=f"put the results into {DOCUMENT.name}"
    )
    return parser


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
