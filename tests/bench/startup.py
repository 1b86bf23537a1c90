"""Start to first acknowledged record, and resident memory of an idle broker."""

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
IDLE_SECONDS = 3.0
TARGET_FIRST_ACK_S = {"embedded": 1.5}
TARGET_IDLE_MB = {"embedded": 130}


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """Medians over several starts, each on an empty data directory."""

    first_ack_s: float
    idle_resident_bytes: int | None


def measure(peer: Peer, rounds: int, tell: Callable[[str], None]) -> Startup | None:
    """Starts and stops `peer` `rounds` times; None for an external one.

    The time runs from the process start to the answer of the first produce request to a topic
    that this producer's Metadata request created. Formatting Kafka's storage is not counted.
    Idle memory is measured before that, in a separate start, on a broker without clients.
    """
    if isinstance(peer, External):
        return None
    idle = _idle_resident_bytes(peer)
    times: list[float] = []
    for _ in range(rounds):
        peer.prepare()
        try:
            times.append(_first_ack_seconds(peer))
        finally:
            peer.stop()
        tell(f"  {peer.name}: first acknowledged record after {times[-1]:.2f} s")
    return Startup(first_ack_s=median(times), idle_resident_bytes=idle)


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


def _idle_resident_bytes(peer: Peer) -> int | None:
    peer.start()
    try:
        time.sleep(IDLE_SECONDS)
        return peer.resident_bytes()
    finally:
        peer.stop()
