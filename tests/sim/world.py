"""One deterministic cluster: the clock, the queue of events, processes, disks and the workload.

Everything that happens comes from one queue, ordered by time and then by age, and every choice
from one generator, so that a seed is a complete description of a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from highwater.partition.core import invariants
from highwater.partition.core.lineage import closed
from tests.sim.bug import NO_BUG, Bug
from tests.sim.clients import Consumer, make_producers
from tests.sim.controller import SimController
from tests.sim.disk import SimLog
from tests.sim.event_queue import EventQueue
from tests.sim.faults import Faults
from tests.sim.gateways import Gateways
from tests.sim.network import CLIENTS, CONTROLLER, GATEWAY, Network
from tests.sim.node import NodeProcess
from tests.sim.observer import Observer, ViolationError
from tests.sim.options import Options
from tests.sim.site import ALONE, Site

EVENTS = 2_000
HEAL_MS_MAX = 6_000
"""Ten sessions: late heartbeats of a process that is gone may hold its successor up for two."""
HEAL_EVENTS_MAX = 60_000
HEAL_CHECK_EVERY = 40
START_STAGGER_MS = 20


class World:
    """Built for one seed, run once."""

    def __init__(
        self,
        options: Options,
        bug: Bug = NO_BUG,
        trace: Callable[[str], None] | None = None,
        *,
        site: Site = ALONE,
        queue: EventQueue | None = None,
    ) -> None:
        """`queue` is shared by the partitions of one cluster, `site` is what they have in common."""
        self.options = options
        self.site = site
        self.bug = bug
        self.trace = trace
        self.rng = random.Random(options.seed)
        self.disk_random = random.Random(options.seed * 69_069 + 11)
        """How long writes and flushes take; of its own, as most seeds have none that take time."""
        self.queue = queue or EventQueue()
        self.events = 0
        self._values = 0
        self._producer_ids = 0
        self._incarnations = 0
        self.nodes = list(range(1, options.replicas + options.spares + 1))
        self.boot_ids = {node: f"boot-{node}" for node in self.nodes}
        self.logs = {node: self._new_log() for node in self.nodes}
        self.processes: dict[int, Any] = {}
        self.network = Network(self)
        self.observer = Observer(self)
        self.controller = SimController(self)
        self.gateways = Gateways(self)
        self.producers = make_producers(self, CLIENTS)
        first = CLIENTS - len(self.producers)
        self.consumers = [Consumer(self, first - n) for n in range(options.consumers)]
        self.faults = Faults(self)
        self.processes = {CONTROLLER: self.controller, GATEWAY: self.gateways.first}
        self.processes.update({c.number: c for c in (*self.producers, *self.consumers)})

    # ---- time ----

    @property
    def now(self) -> int:
        return self.queue.now

    def after(self, delay_ms: int, action: Callable[..., None], *args: Any) -> None:
        """Queues an event."""
        self.queue.add(delay_ms, self, action, args)

    def carry_out(self, action: Callable[..., None], args: tuple[Any, ...]) -> None:
        """One event, and every invariant after it."""
        self.events += 1
        action(*args)
        self.observer.check()
        for node in self.nodes:
            process = self.processes.get(node)
            if process is not None:
                invariants.check(process.replica)
                self.observer.sees(process)
        self.site.checked(self)

    def say(self, what: str) -> None:
        """A line of the trace."""
        assert self.trace is not None
        self.trace(f"{self.now:6d} {what}")

    # ---- running ----

    def run(self, events: int = EVENTS) -> None:
        """The faults, then the healing. Raises ViolationError or InvariantViolationError."""
        self.begin()
        while self.events < events:
            self.queue.step()
        self._heal()

    def begin(self) -> None:
        """Queues what goes on from itself."""
        for number, node in enumerate(self.nodes):
            self.after(1 + number * START_STAGGER_MS, self.start, node)
        self.after(5, self.controller.tick)
        for client in self.producers:
            self.after(30 + int(self.rng.random() * 50), client.send)
        for consumer in self.consumers:
            self.after(60 + int(self.rng.random() * 50), consumer.poll)
        self.after(200, self.faults.tick)
        if self.options.deletes:
            self.after(250, self.faults.delete_records)

    def end_faults(self) -> None:
        """From now on nothing fails, and what has failed was repaired."""
        if self.trace is not None:
            self.say("healing")
        self.faults.active = False
        self.network.make_perfect()
        if self.controller.paused:
            self.controller.resume()
        for node in self.nodes:
            log = self.logs[node]
            log.full = log.stalled = False
            log.hangs_until_ms = 0
            process = self.processes.get(node)
            if process is None:
                self.start(node)
            elif process.out_of_service:
                self.restart(node)  # It was repaired.
            elif process.paused:
                self.faults.resume(process)

    def _heal(self) -> None:
        """R16: without faults everything comes back, within a bounded number of events."""
        self.end_faults()
        goal = [producer.acknowledged for producer in self.producers]
        end = self.observer.end
        deadline_ms, events_max = self.now + HEAL_MS_MAX, self.events + HEAL_EVENTS_MAX
        missing = "nothing was tried"
        while self.now < deadline_ms and self.events < events_max:
            for _ in range(HEAL_CHECK_EVERY):
                self.queue.step()
            missing = self.missing(goal, end)
            if not missing:
                return
        raise ViolationError(f"R16: not healed within {HEAL_MS_MAX} ms: {missing}")

    def missing(self, goal: list[int], end: int) -> str:
        """What has not come back: `goal` are the producers' acknowledged records, `end` the log's."""
        partition = self.controller.partition
        leader = self.processes.get(partition.leader) if partition.leader > 0 else None
        if leader is None:
            return f"no leader, {partition}"
        if partition.adding_replicas or partition.removing_replicas:
            return f"a reassignment that does not end, {partition}"
        if len(partition.isr) < len(partition.replicas):
            return f"ISR {partition.isr}, {partition}"
        starts = {node: self.logs[node].start for node in partition.replicas}
        if min(starts.values()) < leader.log.start:
            return f"logs begin at {starts}, the leader is {partition.leader}"
        replica = leader.replica
        if not replica.offsets_available:
            return f"HW {replica.high_watermark} before {replica.epoch_start_offset}"
        for producer, count in zip(self.producers, goal, strict=True):
            if producer.acknowledged <= count:
                return f"producer {producer.number} is stuck"
        for consumer in self.consumers:
            if consumer.offset < min(end, self.observer.end):
                return f"consumer {consumer.number} is at {consumer.offset}"
        return ""

    # ---- processes ----

    def start(self, node: int) -> None:
        """A new process on the node's disk."""
        if self.processes.get(node) is not None:
            return
        self._incarnations += 1
        process = self.bug.process(self, node, self.logs[node], self._incarnations)
        self.processes[node] = process
        process.tick()

    def kill(self, node: int, *, restart_ms: int) -> None:
        """SIGKILL: the page cache stays; connections break, which their peers see."""
        process = self.processes.pop(node)
        process.log.end_writing(self.disk_random)
        if process.steps_back:
            self.observer.stepped_back.add(node)
        self.network.send(node, CONTROLLER, "on_stream_closed", (node, process.replica.node_epoch))
        if self.rng.random() < 0.5:
            process.log.high_watermark = self.rng.randint(0, process.log.high_watermark)
        if self.options.deletes:
            process.log.forget_start(self.faults.deletions)
        self.after(restart_ms, self.start, node)

    def kill_process(self, process: NodeProcess, restart_ms: int) -> None:
        """As `kill`, if it has not gone already."""
        if self.processes.get(process.node) is process:
            self.kill(process.node, restart_ms=restart_ms)

    def restart(self, node: int) -> None:
        self.kill(node, restart_ms=1)

    def stop(self, node: int) -> None:
        """An orderly end: everything is synced, and the directories say so.

        Unless a write is under way: such a log cannot be closed clean.
        """
        process = self.processes[node]
        if not process.log.writing:
            process.log.sync(process.replica.high_watermark)
            process.log.lineage = closed(process.log.lineage)
        self.kill(node, restart_ms=100)

    def new_boot(self, node: int) -> None:
        self.boot_ids[node] = f"{self.boot_ids[node]}'"

    def damage(self, node: int) -> None:
        self.observer.damages(node, self._incarnations + 1)

    def replace_disk(self, node: int) -> None:
        self.logs[node] = self._new_log()
        self.observer.kept.pop(node, None)

    def delete_log(self, node: int) -> SimLog:
        """The node has no replica any more: an empty log on the same disk, for the next one."""
        before = self.logs[node]
        log = self.logs[node] = self._new_log()
        log.lineage, log.full = before.lineage, before.full
        log.stalled, log.hangs_until_ms = before.stalled, before.hangs_until_ms
        self.observer.removed(node)
        return log

    def _new_log(self) -> SimLog:
        return SimLog(self.options.flush_messages, self.site.producers(self))

    # ---- numbers ----

    def new_value(self) -> int:
        self._values += 1
        return self._values

    def new_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def summary(self) -> tuple[int, int, int, int]:
        """Events, committed records, leader epochs, allowed losses."""
        epoch = self.controller.partition.leader_epoch
        return self.events, self.observer.end, epoch, self.observer.losses
