"""Forwards Ethernet frames between pairs of interfaces twice, out of order or late, by a seed.

For kernels without netem. As a program it runs in the namespace of the interfaces, as root:

    python -m tests.support.frame_disorder forward SEED NEAR:FAR ...
    python -m tests.support.frame_disorder complete INTERFACE ...

`forward` prints "ready", copies frames between each NEAR and its FAR both ways until its standard
input ends, and then prints its counts as JSON, by NEAR. Frames must come from interfaces that
`complete` has prepared: other interfaces leave checksums and segmentation to a device, and a
forwarded frame passes none.
"""

from __future__ import annotations

import array
import fcntl
import heapq
import json
import math
import random
import selectors
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence

DUPLICATED_SHARE = 0.05
SWAPPED_SHARE = 0.05
DELAYED_SHARE = 0.05
"""Shares of the frames; the others pass at once."""
DELAY_S = (0.01, 0.1)
SWAP_S_MAX = 0.02
"""How long a frame waits for one that may pass it."""
HELD_MAX = 1_000
"""Frames that are late in one direction of a pair; more pass at once."""

_FRAMES_AT_ONCE = 64
_FRAME_BYTES_MAX = 65_536
_KERNEL_QUEUE_BYTES = 4 << 20
_EVERYTHING = 0x0003
"""ETH_P_ALL."""
_FORCED_RECEIVE_BUFFER = 33
"""SO_RCVBUFFORCE, by which root may exceed the limit."""
_PACKET_LEVEL, _PACKET_STATISTICS = 263, 6
_ETHTOOL = 0x8946
_OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)
"""ETHTOOL_STXCSUM, _STSO, _SGSO and _SGRO, whose values are all switched off."""


class Disorder:
    """Decides when the frames of one direction pass. Times are seconds of one clock."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._late: list[tuple[float, int, bytes]] = []
        """A heap by the time at which they pass."""
        self._waiting: tuple[float, bytes] | None = None
        """The frame that waits for the next one to overtake it, and its latest time."""
        self.counts: Counter[str] = Counter()

    def take(self, frame: bytes, now_s: float) -> list[bytes]:
        """Takes a frame; returns the frames that pass now."""
        self.counts["frames"] += 1
        fate = self._chance.random()
        if fate < DELAYED_SHARE:
            due_s = now_s + self._chance.uniform(*DELAY_S)
            if len(self._late) < HELD_MAX:
                self.counts["delayed"] += 1
                heapq.heappush(self._late, (due_s, self.counts["frames"], frame))
                return []
            self.counts["not held"] += 1
        elif fate < DELAYED_SHARE + SWAPPED_SHARE and self._waiting is None:
            self._waiting = now_s + SWAP_S_MAX, frame
            return []
        passing = [frame]
        if fate > 1 - DUPLICATED_SHARE:
            self.counts["duplicated"] += 1
            passing.append(frame)
        if self._waiting is not None:
            self.counts["swapped"] += 1
            passing.append(self._waiting[1])
            self._waiting = None
        return passing

    def due(self, now_s: float) -> list[bytes]:
        """Returns the held frames whose time has come."""
        passing = []
        if self._waiting is not None and self._waiting[0] <= now_s:
            passing.append(self._waiting[1])
            self._waiting = None
        while self._late and self._late[0][0] <= now_s:
            passing.append(heapq.heappop(self._late)[2])
        return passing

    @property
    def next_s(self) -> float:
        """The time of the next held frame; infinity if there is none."""
        waiting_s = math.inf if self._waiting is None else self._waiting[0]
        return min(waiting_s, self._late[0][0] if self._late else math.inf)


class Direction:
    """Sends frames of one interface out at another."""

    def __init__(self, source: socket.socket, target: socket.socket, seed: str) -> None:
        self.source = source
        self._target = target
        self.disorder = Disorder(seed)

    def receive(self) -> None:
        """Takes waiting frames, but not so many that other directions starve."""
        for _ in range(_FRAMES_AT_ONCE):
            try:
                frame, address = self.source.recvfrom(_FRAME_BYTES_MAX)
            except BlockingIOError:
                return
            if address[2] != socket.PACKET_OUTGOING:
                self._send(self.disorder.take(frame, time.monotonic()))

    def send_due(self) -> None:
        self._send(self.disorder.due(time.monotonic()))

    def counts(self) -> Counter[str]:
        """The counts; call it once, at the end, as reading resets the kernel's counters."""
        told = self.source.getsockopt(_PACKET_LEVEL, _PACKET_STATISTICS, 8)
        missed = struct.unpack("II", told)[1]
        return self.disorder.counts + Counter({"missed": missed})

    def _send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            try:
                self._target.send(frame)
            except OSError:  # Like a wire, it does not send again.
                self.disorder.counts["not sent"] += 1


def forward(seed: str, pairs: Sequence[tuple[str, str]]) -> dict[str, Counter[str]]:
    """Forwards until standard input ends; returns counts by near interface. Raises OSError."""
    directions: dict[str, tuple[Direction, Direction]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        for near, far in pairs:
            ends = _opened(near), _opened(far)
            there = Direction(ends[0], ends[1], f"{seed}/{near}/there")
            back = Direction(ends[1], ends[0], f"{seed}/{near}/back")
            directions[near] = there, back
            for direction in directions[near]:
                selector.register(direction.source, selectors.EVENT_READ, direction)
        every = [direction for both in directions.values() for direction in both]
        print("ready", flush=True)
        while True:
            next_s = min(direction.disorder.next_s for direction in every)
            wait_s = None if next_s == math.inf else max(0.0, next_s - time.monotonic())
            for key, _ in selector.select(wait_s):
                if key.data is None:
                    return {near: a.counts() + b.counts() for near, (a, b) in directions.items()}
                key.data.receive()
            for direction in every:
                direction.send_due()


def complete(interface: str) -> None:
    """Makes the interface's frames have checksums and come in segments. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in _OFFLOADS:
            value = array.array("I", [command, 0])
            request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(any_socket, _ETHTOOL, request)


def _opened(interface: str) -> socket.socket:
    """A socket that sends and receives whole frames at the interface."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING))
    made.setsockopt(socket.SOL_SOCKET, _FORCED_RECEIVE_BUFFER, _KERNEL_QUEUE_BYTES)
    made.bind((interface, _EVERYTHING))
    made.setblocking(False)
    return made


def main(words: Sequence[str]) -> None:
    """See the module."""
    what, *others = words
    if what == "complete":
        for interface in others:
            complete(interface)
        return
    assert what == "forward", what
    seed, *pairs = others
    split = [(near, far) for near, _, far in (pair.partition(":") for pair in pairs)]
    print(json.dumps(forward(seed, split)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
