"""`python -m tests.bench.failover`: how long writes wait if a leader is killed, paused or stopped.

A producer writes with idempotence and acks=all to one partition with three replicas. The peers
run one after the other. Targets hold for Highwater with its default settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console

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
from tests.bench.faults import ACK_TIMEOUT_S, WHOLE_TIMEOUT_S, Fault, Round, run_round
from tests.bench.peer import BreakablePeer
from tests.bench.peer_highwater import HIGHWATER_COMMANDS
from tests.bench.peers import make_breakable_peer
from tests.bench.processes import end_orderly_on_sigterm
from tests.bench.topic_view import wait_until_whole
from tests.bench.workloads import NODES_OF_REPLICATED, REPLICATION_FACTOR
from tests.bench.writer import NoAck, ReadBack, Writer, compare, read_numbers

MODULE = "tests.bench.failover"
DEFAULT_PEERS = "combined3,services3,kafka3"
TOPIC = "bench-failover"
TOPIC_CONFIGS = {"min.insync.replicas": "2", "retention.ms": "-1"}
SECTION = Section(name="failover", target="bench-failover")
# Highwater's default session_timeout_ms, and a second for the election and the clients to learn it.
SESSION_TIMEOUT_S = 6.0
TARGET_P50_S: Mapping[Fault, float] = {Fault.KILL: 2.0}
TARGET_WORST_S: Mapping[Fault, float] = {
    Fault.KILL: 4.0,
    Fault.PAUSE: SESSION_TIMEOUT_S + 1,
    Fault.TERMINATE: 0.3,
}
HEADER = ["peer", "fault", "rounds", "pause p50, s", "worst, s", "leader was controller",
          "node back to full ISR, s (median)"]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One peer's rounds, the producer's failed records, and the records in the log."""

    peer: str
    version: str
    rounds: tuple[Round, ...]
    problem: str | None
    failed_sends: tuple[str, ...]
    read_back: ReadBack | None

    @property
    def is_clean(self) -> bool:
        """True if all rounds ran, and no record was refused, lost or duplicated."""
        whole = self.read_back is not None and self.read_back.is_whole
        return self.problem is None and not self.failed_sends and whole


def measure(peer: BreakablePeer, faults: Sequence[Fault], tell: Callable[[str], None]) -> Outcome:
    """Starts the peer, breaks its leader's node once for each of `faults`, and ends it."""
    rounds: list[Round] = []
    problem: str | None = None
    read_back: ReadBack | None = None
    peer.start()
    try:
        peer.create_topic(TOPIC, 1, TOPIC_CONFIGS, replication=REPLICATION_FACTOR)
        with Writer(peer.bootstrap, TOPIC) as writer:
            try:
                wait_until_whole(peer.addresses, TOPIC, WHOLE_TIMEOUT_S)
                # The first write waits for connections and a producer id; no round should do so.
                writer.wait_for_later(0.0, ACK_TIMEOUT_S)
                for number, fault in enumerate(faults, 1):
                    rounds.append(run_round(peer, writer, fault))
                    tell(f"  {peer.name} {number}/{len(faults)}: {describe(rounds[-1])}")
            except (NoAck, TimeoutError, RuntimeError) as error:
                problem = f"{type(error).__name__}: {error}"
                tell(f"  {peer.name}: failed: {error}")
        if problem is None:
            read_back = compare(writer.acknowledged, read_numbers(peer.bootstrap, TOPIC))
            tell(f"  {peer.name}: {read_back}")
    finally:
        peer.stop()
    return Outcome(
        peer=peer.name,
        version=peer.version(),
        rounds=tuple(rounds),
        problem=problem,
        failed_sends=tuple(writer.failures),
        read_back=read_back,
    )


def describe(done: Round) -> str:
    """One line."""
    also = ", also the active controller" if done.was_controller else ""
    return (
        f"{done.fault.value} of node {done.node}{also}: {done.pause_s:.2f} s, "
        f"full ISR {done.whole_s:.1f} s after its return"
    )


def table(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """One line for each peer and fault; see HEADER."""
    lines = []
    for outcome in outcomes:
        ours = outcome.peer in HIGHWATER_COMMANDS
        for fault in Fault:
            rounds = [done for done in outcome.rounds if done.fault is fault]
            if not rounds:
                continue
            pauses = [done.pause_s for done in rounds]
            lines.append(
                [
                    outcome.peer,
                    fault.value,
                    str(len(rounds)),
                    with_limit(median(pauses), TARGET_P50_S.get(fault) if ours else None, ".2f"),
                    with_limit(max(pauses), TARGET_WORST_S.get(fault) if ours else None, ".2f"),
                    str(sum(done.was_controller for done in rounds)),
                    f"{median(done.whole_s for done in rounds):.1f}",
                ]
            )
    return lines


def notes(outcomes: Sequence[Outcome]) -> list[str]:
    """The failed, lost and duplicated records, one line per peer."""
    lines = []
    for outcome in outcomes:
        read = outcome.read_back
        told = (
            "not read back"
            if read is None
            else f"{read.acknowledged} acknowledged, {read.missing} missing, "
            f"{read.repeated} repeated"
        )
        line = f"{outcome.peer}: {len(outcome.failed_sends)} failed sends, {told}"
        lines.append(line if outcome.problem is None else f"{line}; ended by {outcome.problem}")
    return lines


def markdown(command: str, outcomes: Sequence[Outcome]) -> str:
    """The section of docs/benchmarks.md."""
    parts = [f"Command: `{command}`", "", *(f"- {line}" for line in machine())]
    parts += [f"- {outcome.peer}: {outcome.version}" for outcome in outcomes]
    parts += ["", *markdown_table(HEADER, table(outcomes)), ""]
    return "\n".join([*parts, *(f"- {line}" for line in notes(outcomes))]) + "\n"


def plan_faults(*, kills: int, pauses: int, terminations: int) -> list[Fault]:
    """The given number of each fault, kills first."""
    return [
        *[Fault.KILL] * kills,
        *[Fault.PAUSE] * pauses,
        *[Fault.TERMINATE] * terminations,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 if a peer failed or lost records, or 2 for an invalid command line."""
    options = _parser().parse_args(arguments)
    try:
        peers = [make_breakable_peer(text) for text in options.peers.split(",")]
        for peer in peers:
            if peer.nodes != NODES_OF_REPLICATED:
                raise ValueError(f"{peer.name} has no three nodes")
    except ValueError as error:
        sys.stderr.write(f"failover: {error}\n")
        return 2
    most = 1 if options.quick else sys.maxsize
    faults = plan_faults(
        kills=min(most, options.kills),
        pauses=min(most, options.pauses),
        terminations=min(most, options.terminations),
    )
    console = Console(width=None if sys.stdout.isatty() else 180)
    outcomes = [measure(peer, faults, teller(console)) for peer in peers]
    console.print(rich_table("Failover of a leader", HEADER, table(outcomes)))
    for line in notes(outcomes):
        console.print(line, markup=False)
    saved = save_json("failover-", {"machine": machine(), "outcomes": [_json(o) for o in outcomes]})
    console.print(f"Every round: {saved}")
    if options.write_document:
        write_section(DOCUMENT, SECTION, markdown(command_of(MODULE, arguments), outcomes))
    return 0 if all(outcome.is_clean for outcome in outcomes) else 1


def _json(outcome: Outcome) -> dict[str, object]:
    rounds = [{**asdict(done), "fault": done.fault.value} for done in outcome.rounds]
    return {**asdict(outcome), "rounds": rounds}


def _parser() -> argparse.ArgumentParser:
    parser = parser_of(MODULE, __doc__, quick="one of each")
    parser.add_argument(
        "--peers", default=DEFAULT_PEERS, help=f"of those with three nodes ({DEFAULT_PEERS})"
    )
    parser.add_argument("--kills", type=int, default=10, help="kill -9 of the leader's node (10)")
    parser.add_argument("--pauses", type=int, default=3, help="SIGSTOP of the leader's node (3)")
    parser.add_argument("--terminations", type=int, default=5, help="SIGTERM of it (5)")
    return parser


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
