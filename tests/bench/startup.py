"""Start to first acknowledged record; resident memory and processor time of an idle broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tests.bench import load
from tests.bench.peer import Peer
from tests.bench.peers import External

FIRST_ACK_TIMEOUT_S = 60.0
RETRY_PAUSE_S = 0.005
# What a start leaves to be done is done by then: elections, compilers, the collector of garbage.
SETTLE_S = 3.0
TARGET_FIRST_ACK_S = {"embedded": 1.5}
TARGET_IDLE_MB = {"embedded": 130}


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """All processes of a broker without clients and topics; None if they are not known.

    `cpu_ms_per_s` is the processor time, in ms for each second of the measured window.
    """

    resident_bytes: int | None
    cpu_ms_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Medians over several starts, each on an empty data directory."""

    first_ack_s: float
    idle: Idle


def measure(
    peer: Peer, rounds: int, tell: Callable[[str], None], *, idle_seconds: float
) -> Startup | None:
    """Starts and stops `peer` `rounds` times; None for an external one.

    The time runs from the process start to the answer of the first produce request to a topic
    that this producer's Metadata request created. Formatting Kafka's storage is not counted.
    Idleness is measured before that, in a separate start, for `idle_seconds`.
    """
    if isinstance(peer, External):
        return None
    idle = _measure_idle(peer, idle_seconds)
    times: list[float] = []
    for _ in range(rounds):
        peer.prepare()
        try:
            times.append(_first_ack_seconds(peer))
        finally:
            peer.stop()
        tell(f"  {peer.name}: first acknowledged record after {times[-1]:.2f} s")
    return Startup(first_ack_s=median(times), idle=idle)


def _first_ack_seconds(peer: Peer) -> float:
    target = load.Target(bootstrap=peer.bootstrap, topic="bench-first")
    started = time.monotonic()
    peer.launch()
    while True:
        try:
            load.send(target, partitions=1, batch_bytes=200, requests=1, auto_create=True)
        except load.LoadFailed:
            if time.monotonic() > started + FIRST_ACK_TIMEOUT_S:
                raise
            time.sleep(RETRY_PAUSE_S)
        else:
            return time.monotonic() - started


def _measure_idle(peer: Peer, seconds: float) -> Idle:
    peer.start()
    try:
        time.sleep(SETTLE_S)
        resident = peer.resident_bytes()
        started, before = time.monotonic(), peer.cpu_seconds()
        time.sleep(seconds)
        elapsed, after = time.monotonic() - started, peer.cpu_seconds()
    finally:
        peer.stop()
    cpu = None if before is None or after is None else (after - before) / elapsed * 1e3
    return Idle(resident_bytes=resident, cpu_ms_per_s=cpu)
