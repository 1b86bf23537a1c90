"""How long a killed node with many partitions and much data takes until it serves again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.bench import load
from tests.bench.peer import BreakablePeer
from tests.bench.processes import wait_until_ended
from tests.bench.topic_view import is_in_every_isr, is_in_no_isr, wait_for, wait_until_whole
from tests.bench.workloads import MIB, REPLICATION_FACTOR

TOPIC = "bench-restart"
TOPIC_CONFIGS = {"retention.ms": "-1", "retention.bytes": "-1"}
# The node to kill. Each node has a replica of every partition of replicated topics.
NODE = 1
LOAD_BATCH_BYTES = MIB
PROBE_BATCH_BYTES = 200
CREATE_TIMEOUT_S = 180.0
SERVE_TIMEOUT_S = 300.0
SIGNAL_TIMEOUT_S = 10.0
ADMIN_TIMEOUT_S = 30.0
RETRY_PAUSE_S = 0.02
SETTLE_S = 5.0


class DataLost(RuntimeError):
    """A partition ends earlier than before: records are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartResult:
    """`serve_s`: from the start of the process until it serves every partition, one time per round.

    `loaded_bytes` counts the batches, per replica; `idle_bytes` the resident memory of all
    processes after the last round.
    """

    peer: str
    version: str
    partitions: int
    loaded_bytes: int
    load_s: float
    serve_s: tuple[float, ...]
    idle_bytes: int | None


def measure(
    peer: BreakablePeer,
    *,
    partitions: int,
    total_bytes: int,
    rounds: int,
    tell: Callable[[str], None],
) -> RestartResult:
    """Loads the peer, then kills and restarts its node `rounds` times. Passes on all errors."""
    peer.start()
    try:
        loaded, load_s = _fill(peer, partitions, total_bytes)
        tell(f"  {peer.name}: {loaded / 1e9:.2f} GB in {partitions} partitions, {load_s:.0f} s")
        serve_s: list[float] = []
        for _ in range(rounds):
            time.sleep(SETTLE_S)
            serve_s.append(_kill_and_return(peer, partitions))
            tell(f"  {peer.name}: all partitions served after {serve_s[-1]:.2f} s")
        return RestartResult(
            peer=peer.name,
            version=peer.version(),
            partitions=partitions,
            loaded_bytes=loaded,
            load_s=load_s,
            serve_s=tuple(serve_s),
            idle_bytes=peer.resident_bytes(),
        )
    finally:
        peer.stop()


def check_ends(before: Mapping[int, int], after: Mapping[int, int], *, more: int) -> None:
    """Every partition must end at least `more` records later than before. Raises DataLost."""
    short = {p: (end, after.get(p)) for p, end in before.items() if after.get(p, -1) < end + more}
    if short:
        raise DataLost(f"{len(short)} partitions are short, (before, after): {dict(_few(short))}")


def _few(found: Mapping[int, object]) -> list[tuple[int, object]]:
    return sorted(found.items())[:5]


def _fill(peer: BreakablePeer, partitions: int, total_bytes: int) -> tuple[int, float]:
    replication = REPLICATION_FACTOR if peer.nodes > 1 else 1
    peer.create_topic(TOPIC, partitions, TOPIC_CONFIGS, replication=replication)
    _probe(peer, partitions, wait_s=CREATE_TIMEOUT_S)
    batches = max(partitions, round(total_bytes / LOAD_BATCH_BYTES))
    started = time.monotonic()
    load.send(
        _target(peer),
        partitions=partitions,
        batch_bytes=LOAD_BATCH_BYTES,
        requests=batches,
        connections=peer.nodes,
        acks=_acks(peer),
    )
    return batches * LOAD_BATCH_BYTES, time.monotonic() - started


def _kill_and_return(peer: BreakablePeer, partitions: int) -> float:
    before = _end_offsets(peer, partitions)
    pid = peer.node_pid(NODE)
    peer.hold()
    os.kill(pid, signal.SIGKILL)
    wait_until_ended(pid, SIGNAL_TIMEOUT_S)
    if peer.nodes == 1:
        started = time.monotonic()
        peer.bring_back(NODE)
        _probe(peer, partitions, wait_s=SERVE_TIMEOUT_S)
    else:
        # The other nodes serve without it. The node is back when it is in all ISRs.
        _wait_for_isr(peer, lambda found: is_in_no_isr(NODE, found), "the node out of all ISRs")
        started = time.monotonic()
        peer.bring_back(NODE)
        _wait_for_isr(peer, lambda found: is_in_every_isr(NODE, found), "the node in all ISRs")
    seconds = time.monotonic() - started
    if peer.nodes > 1:
        wait_until_whole(peer.addresses, TOPIC, SERVE_TIMEOUT_S)
        _probe(peer, partitions, wait_s=SERVE_TIMEOUT_S)
    # One connection probes every partition in turn; several would not share them so exactly.
    check_ends(before, _end_offsets(peer, partitions), more=1 if peer.nodes == 1 else 0)
    return seconds


def _wait_for_isr(peer: BreakablePeer, condition: Callable[..., bool], what: str) -> None:
    wait_for(peer.addresses, TOPIC, condition, timeout_s=SERVE_TIMEOUT_S, what=what)


def _probe(peer: BreakablePeer, partitions: int, *, wait_s: float) -> None:
    """Writes one small batch to every partition; starts over if one refuses."""
    load.send(
        _target(peer),
        partitions=partitions,
        batch_bytes=PROBE_BATCH_BYTES,
        requests=partitions if peer.nodes == 1 else 2 * partitions,
        connections=peer.nodes,
        acks=_acks(peer),
        wait_s=wait_s,
        retry_pause_s=RETRY_PAUSE_S,
    )


def _target(peer: BreakablePeer) -> load.Target:
    return load.Target(bootstrap=peer.addresses[-1], topic=TOPIC)


def _acks(peer: BreakablePeer) -> int:
    return -1 if peer.nodes > 1 else 1


def _end_offsets(peer: BreakablePeer, partitions: int) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 2})
    wanted = {TopicPartition(TOPIC, p): OffsetSpec.latest() for p in range(partitions)}
    answers = admin.list_offsets(wanted, request_timeout=ADMIN_TIMEOUT_S)
    return {
        where.partition: answer.result(ADMIN_TIMEOUT_S).offset for where, answer in answers.items()
    }
