"""Random histories of one coordinator partition that moves between nodes (invariant R11).

Clients commit ever larger offsets and fetch them. Leaders change, learn of it late, crash and come
back; followers lag; answers wait, time out or get lost with their node. An offset that was
acknowledged or returned is returned by every later answer of the leader, unless a newer one is.
An old leader that does not know of its successor may return an older offset, but only a committed
one.
"""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.shard_host import HostSettings
from tests.support.stepped_loop import SteppedLoop
from tests.unit.partition.coordinator.memory_log import MemorySnapshots
from tests.unit.partition.coordinator.replicated_log import ReplicatedLog
from tests.unit.partition.groups.node import Node, Sent
from tests.unit.partition.groups.test_runtime import commit, committed, fetch_all

NODES = st.integers(0, 2)
PARTITIONS = st.integers(0, 1)
TURNS = 40
"""Enough turns of the loop for everything to finish: loading takes a few per batch."""
RETRIED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""All errors that a client may get here."""


class Complaints:
    """A logger that keeps events that must not happen."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def bind(self, **_values: object) -> Complaints:
        return self

    def info(self, _event: str, **_values: object) -> None:
        pass

    warning = info

    def error(self, event: str, **values: object) -> None:
        self.events.append(f"{event} {values}")

    exception = error


class LoopClock:
    def __init__(self, loop: SteppedLoop) -> None:
        self.loop = loop

    def monotonic_ms(self) -> int:
        return int(self.loop.now * 1000)

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.monotonic_ms()


class CoordinatorLives(RuleBasedStateMachine):
    @initialize(min_isr=st.integers(1, 2), snapshot_bytes=st.sampled_from([150, 600, 1 << 20]))
    def start(self, min_isr, snapshot_bytes):
        self.loop = SteppedLoop()
        self.complaints = Complaints()
        self.settings = HostSettings(snapshot_bytes=snapshot_bytes)
        self.log = ReplicatedLog(3, min_isr)
        self.disks = [MemorySnapshots() for _ in range(3)]
        self.nodes = [self._process(node) for node in range(3)]
        self.offsets = itertools.count(1)
        self.known = [-1, -1]
        """By partition: the largest offset acknowledged or returned."""
        self.commits: list[tuple[Sent, int, int, int]] = []
        """(call, node, partition, offset)"""
        self.fetches: list[tuple[Sent, int, list[int]]] = []
        """(call, node, the least offset that it must return)"""
        self._elect(0)

    def _process(self, node: int) -> Node:
        return self.loop.call(self._new_node, node)

    def _new_node(self, node: int) -> Node:
        return Node(
            self.log.nodes[node],
            self.disks[node],
            settings=self.settings,
            clock=LoopClock(self.loop),
            logger=self.complaints,
        )

    def _elect(self, node: int) -> None:
        def elect() -> None:
            self.nodes[node].coordinator.become_leader(0, self.log.elect(node))

        self.loop.call(elect)

    # -- clients ---------------------------------------------------------------------------------

    @rule(node=NODES, partition=PARTITIONS)
    def commit(self, node, partition):
        if self.log.nodes[node].alive:
            offset = next(self.offsets)
            request = commit(offset, partition=partition)
            sent = self.loop.call(lambda: self.nodes[node].submit(request, 8))
            self.commits.append((sent, node, partition, offset))

    @rule(node=NODES)
    def fetch(self, node):
        if self.log.nodes[node].alive:
            present = node == self.log.leader and self.log.nodes[node].leading
            floor = self.known.copy() if present else [-1, -1]
            sent = self.loop.call(lambda: self.nodes[node].submit(fetch_all(), 7))
            self.fetches.append((sent, node, floor))

    # -- nodes -----------------------------------------------------------------------------------

    @rule(node=NODES)
    def elect(self, node):
        if self.log.may_lead(node):
            self._elect(node)

    @rule(node=NODES)
    def learn(self, node):
        if self.log.nodes[node].alive:
            self.loop.call(self._learn, node)

    def _learn(self, node: int) -> None:
        if self.log.learn(node):
            self.nodes[node].coordinator.resign(0)

    @rule(node=NODES, batches=st.integers(1, 4))
    def replicate(self, node, batches):
        for _ in range(batches):
            if self.log.may_fetch(node):
                self.loop.call(self.log.fetch, node)

    @rule(node=NODES)
    def shrink(self, node):
        leader = self.log.nodes[self.log.leader]
        if leader.leading and leader.epoch == self.log.epoch and node != leader.node:
            self.loop.call(self.log.shrink, node)

    @rule(node=NODES)
    def crash(self, node):
        if not self.log.nodes[node].alive:
            return
        self.nothing_told_is_taken_back()
        self.log.crash(node)
        lost = [call for call in (*self.commits, *self.fetches) if call[1] == node]
        for call in lost:
            call[0].call.cancelled = True  # Its connection is gone.
        self.commits = [call for call in self.commits if call[1] != node]
        self.fetches = [call for call in self.fetches if call[1] != node]
        self.loop.call(self.nodes[node].coordinator.resign, 0)

    @rule(node=NODES)
    def restart(self, node):
        replica = self.log.nodes[node]
        if not replica.alive:
            replica.alive = True
            self.nodes[node] = self._process(node)

    # -- time ------------------------------------------------------------------------------------

    @rule(turns=st.integers(1, 4))
    def some_turns(self, turns):
        self.loop.turn(turns)

    @rule()
    def all_turns(self):
        self.loop.turn(TURNS)

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0]))
    def wait(self, seconds):
        self.loop.now += seconds
        self.loop.turn(TURNS)

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def nothing_told_is_taken_back(self):
        if not hasattr(self, "log"):
            return
        assert self.complaints.events == []
        commits, self.commits = self.commits, []
        for sent, node, partition, offset in commits:
            if not sent.done:
                self.commits.append((sent, node, partition, offset))
            elif self._accepted(sent):
                assert sent.response.topics[0].partitions[0].error_code == 0
                self.known[partition] = max(self.known[partition], offset)
        fetches, self.fetches = self.fetches, []
        for sent, node, floor in fetches:
            if not sent.done:
                self.fetches.append((sent, node, floor))
            elif self._accepted(sent):
                found = committed(sent.response)
                told = [found.get(("t", partition), -1) for partition in (0, 1)]
                assert all(t >= least for t, least in zip(told, floor, strict=True)), (told, floor)
                self.known = list(map(max, self.known, told))

    def _accepted(self, sent: Sent) -> bool:
        if sent.answers[0][0] == 0:
            return True
        assert sent.code in RETRIED
        return False

    # -- the end ---------------------------------------------------------------------------------

    def teardown(self):
        if not hasattr(self, "log"):
            return
        try:
            self._heal()
        finally:
            for node in self.nodes:
                self.loop.call(node.coordinator.resign, 0)
            self.loop.turn(TURNS)
            self.loop.close()

    def _heal(self) -> None:
        for node in range(3):
            self.restart(node)
        leader = min(self.log.isr)
        self._elect(leader)
        for node in range(3):
            self.learn(node)
        for _ in range(3):
            self.wait(6.0)
            self._replicate_all()
        self.loop.turn(TURNS)
        self.nothing_told_is_taken_back()
        assert (self.commits, self.fetches) == ([], []), "everybody is answered"
        assert len({tuple(replica.batches) for replica in self.log.nodes}) == 1
        self.fetch(leader)
        self.loop.turn(TURNS)
        ((sent, _, _),) = self.fetches
        assert sent.code == 0
        self.nothing_told_is_taken_back()
        self.commit(leader, 0)
        self.loop.turn(TURNS)
        self._replicate_all()
        self.loop.turn(TURNS)
        self.nothing_told_is_taken_back()
        assert self.commits == []
        assert self.known[0] == next(self.offsets) - 1

    def _replicate_all(self) -> None:
        longest = max(len(replica.batches) for replica in self.log.nodes)
        for node in range(3):
            self.replicate(node, longest + 1)


TestCoordinatorLives = CoordinatorLives.TestCase
TestCoordinatorLives.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
