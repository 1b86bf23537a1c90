"""The faults of a partition's leader, and how long the writer then waits."""

from __future__ import annotations

import enum
import os
import signal
import time
from dataclasses import dataclass

from tests.bench.peer import BreakablePeer
from tests.bench.processes import wait_until_ended, wait_until_stopped
from tests.bench.topic_view import wait_until_whole
from tests.bench.writer import Writer

# librdkafka's own timeout for a request to a silent broker is 60 s.
ACK_TIMEOUT_S = 150.0
WHOLE_TIMEOUT_S = 120.0
SIGNAL_TIMEOUT_S = 10.0
END_TIMEOUT_S = 60.0
# The pause between two faults, until the writer is steady and the node is back.
SETTLE_S = 3.0
# Pauses still count for this long after an orderly end.
AFTER_END_S = 2.0


class Fault(enum.Enum):
    """The signal; the value is its name in the report."""

    KILL = "kill -9"
    PAUSE = "SIGSTOP"
    TERMINATE = "SIGTERM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fault. `pause_s` is the writer's pause.

    KILL and PAUSE: from the signal to the acknowledgement of a record that was sent after the
    process was dead or stopped. TERMINATE: the longest time without an acknowledgement, from the
    signal until a little after the process has ended. `whole_s` is the time from the node's return
    to a full ISR.
    """

    fault: Fault
    node: int
    was_controller: bool
    pause_s: float
    whole_s: float


def run_round(peer: BreakablePeer, writer: Writer, fault: Fault) -> Round:
    """Breaks the leader's node once, and brings it back. Raises NoAck, TimeoutError."""
    wait_until_whole(peer.addresses, writer.topic, WHOLE_TIMEOUT_S)
    time.sleep(SETTLE_S)
    # Leadership may have gone back to the preferred replica meanwhile.
    partitions = wait_until_whole(peer.addresses, writer.topic, WHOLE_TIMEOUT_S)
    node = partitions[0].leader
    was_controller = peer.active_controller() == node
    pid = peer.node_pid(node)
    match fault:
        case Fault.KILL:
            pause_s = _kill(peer, writer, pid)
            returned_at = time.monotonic()
            peer.bring_back(node)
        case Fault.PAUSE:
            pause_s = _pause(writer, pid)
            returned_at = time.monotonic()
        case Fault.TERMINATE:
            pause_s = _terminate(peer, writer, pid)
            returned_at = time.monotonic()
            peer.bring_back(node)
    wait_until_whole(peer.addresses, writer.topic, WHOLE_TIMEOUT_S)
    return Round(
        fault=fault,
        node=node,
        was_controller=was_controller,
        pause_s=pause_s,
        whole_s=time.monotonic() - returned_at,
    )


def _kill(peer: BreakablePeer, writer: Writer, pid: int) -> float:
    peer.hold()
    signalled_at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    dead_at = wait_until_ended(pid, SIGNAL_TIMEOUT_S)
    return writer.wait_for_later(dead_at, ACK_TIMEOUT_S) - signalled_at


def _pause(writer: Writer, pid: int) -> float:
    signalled_at = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        stopped_at = wait_until_stopped(pid, SIGNAL_TIMEOUT_S)
        return writer.wait_for_later(stopped_at, ACK_TIMEOUT_S) - signalled_at
    finally:
        os.kill(pid, signal.SIGCONT)


def _terminate(peer: BreakablePeer, writer: Writer, pid: int) -> float:
    peer.hold()
    signalled_at = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    ended_at = wait_until_ended(pid, END_TIMEOUT_S)
    writer.wait_for_later(ended_at, ACK_TIMEOUT_S)
    time.sleep(max(0.0, ended_at + AFTER_END_S - time.monotonic()))
    return writer.longest_gap(signalled_at, time.monotonic())
