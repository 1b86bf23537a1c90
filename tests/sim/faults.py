"""What goes wrong in a world: one method per fault, each with its own end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from highwater.controller.core.reassign import target_replicas
from highwater.partition.core import replica_events as on
from highwater.partition.core.transitions import Role
from tests.sim.network import CONTROLLER
from tests.sim.node import NodeProcess

if TYPE_CHECKING:
    from tests.sim.world import World


LOOKS, LOOK_EVERY_MS = 150, 5
TORN_SHARE = 0.3
TOGETHER_SHARE = 0.3
REPAIRED_MS = (150, 600, 1_500, 2_500)
HANGS_MS = (150, 600, 1_200, 2_500)
DELETE_EVERY_MS_MAX = 300
STALLED_MS_MAX = 300
"""For so long after it has hung, a disk is still written by a thread."""


class Faults:
    """Draws a fault every now and then, from those that the seed allows."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.repairs = random.Random(world.options.seed * 69_069 + 7)
        """Of its own, so that seeds without such failures stay what they were."""
        self.damages = random.Random(world.options.seed * 69_997 + 13)
        self.deletions = random.Random(world.options.seed * 75_403 + 19)
        self.active = True

    def tick(self) -> None:
        if not self.active:
            return
        world = self.world
        name = self.rng.choice(world.options.faults)
        if world.trace is not None:
            world.say(f"fault {name}")
        getattr(self, name)()
        mean = world.options.fault_every_ms
        world.after(1 + int(self.rng.expovariate(1.0 / mean)), self.tick)

    def _running(self) -> NodeProcess | None:
        """A node that runs; the leader more often than its share."""
        world = self.world
        leader = world.processes.get(world.controller.partition.leader)
        if isinstance(leader, NodeProcess) and self.rng.random() < 0.4:
            return leader
        running = [p for p in world.processes.values() if isinstance(p, NodeProcess)]
        return self.rng.choice(running) if running else None

    def _some_ms(self) -> int:
        return self.rng.choice((30, 150, 600, 1_500))

    def _later(self, name: str, *args: object) -> None:
        self.world.after(self._some_ms(), getattr(self, name), *args)

    # ---- processes ----

    def kill(self) -> None:
        process = self._running()
        if process is not None:
            self.world.kill(process.node, restart_ms=self._some_ms())

    def clean_stop(self) -> None:
        process = self._running()
        if process is not None:
            process.stop()

    def pause(self) -> None:
        process = self._running()
        if process is not None and not process.paused:
            process.paused = True
            self._later("resume", process)

    def resume(self, process: NodeProcess) -> None:
        """What arrived meanwhile is handled at once."""
        process.paused = False
        waiting, process.inbox = process.inbox, []
        for name, args in waiting:
            if self.world.processes.get(process.node) is process:
                getattr(process, name)(*args)

    def clock_jump(self) -> None:
        process = self._running()
        if process is not None:
            process.clock_offset_ms += self.rng.choice((-1, 1)) * self.rng.choice((200, 3_600_000))

    # ---- disks ----

    def may_damage(self, node: int) -> bool:
        """True if another node keeps everything, or if the seed allows losses.

        With KIP-966 min.insync.replicas - 1 disks may lose something at once.
        """
        world = self.world
        # A replica that steps back for its damage is about to lose its log.
        stepping = {p.node for p in self._nodes() if p.steps_back}
        damaged = world.observer.damaged.keys() | stepping | world.observer.stepped_back
        partition = world.controller.partition
        if len(target_replicas(partition)) == 1:
            return False  # No rule can tell what a single replica has lost.
        staying = {*partition.isr, *partition.eligible_leaders} - {*partition.removing_replicas}
        whole = staying - damaged - {node}
        borne = max(world.options.min_isr - 1, 1)
        return world.options.reckless or bool(whole and len({*damaged, node}) <= borne)

    def _nodes(self) -> list[NodeProcess]:
        return [p for p in self.world.processes.values() if isinstance(p, NodeProcess)]

    def power_loss(self) -> None:
        process = self._running()
        if process is not None and self.may_damage(process.node):
            node = process.node
            self.world.kill(node, restart_ms=self._some_ms())
            self.world.new_boot(node)
            process.log.power_cut(self.rng)
            if self.world.options.log_failures and self.repairs.random() < TORN_SHARE:
                process.log.high_watermark = process.log.start  # As of a checkpoint that is torn.
            self.world.damage(node)

    def disk_error(self) -> None:
        """EIO: the replica fails, and what was not synced is gone although the kernel lives on.

        The process ends soon, or lives on without this log until somebody has repaired it.
        """
        process = self._running()
        if process is None or not self.may_damage(process.node):
            return
        self._fail_log(process)
        process.log.lose_tail(self.rng)
        lives_on = self.world.options.log_failures and self.repairs.random() < 0.7
        lives_ms = self.repairs.choice(REPAIRED_MS) if lives_on else 50
        self.world.after(lives_ms, self.world.kill_process, process, self._some_ms())

    def write_fails(self, process: NodeProcess) -> None:
        """ENOSPC while it appends: all that was written is there, and the replica fails for good."""
        self._fail_log(process)
        process.log.write_failed()
        lives_ms, away_ms = self.repairs.choice(REPAIRED_MS), self.repairs.choice(REPAIRED_MS)
        self.world.after(lives_ms, self.world.kill_process, process, away_ms)

    def _fail_log(self, process: NodeProcess) -> None:
        process.handle(on.LogFailed())
        assert process.replica.role is Role.OFFLINE
        process.damaged_in = None  # Its disk has failed: nothing is made anew there.
        self.world.damage(process.node)

    def log_damaged(self) -> None:
        """R13: a damaged replica is deleted, and a new one fetches everything from the others.

        This happens at any time, and to several at once: the rules must keep the last whole copy.
        """
        process = self._running()
        if process is None:
            return
        process.quarantine()
        if self.damages.random() < TOGETHER_SHARE:
            for other in self._nodes():
                if other is not process and not other.paused:
                    other.quarantine()

    def new_disk(self) -> None:
        """The machine runs on, the directory is empty (KAFKA-14139)."""
        process = self._running()
        if process is not None and self.may_damage(process.node):
            self.world.kill(process.node, restart_ms=self._some_ms())
            self.world.replace_disk(process.node)
            self.world.damage(process.node)

    def disk_full(self) -> None:
        process = self._running()
        if process is not None:
            process.log.full = True
            self._later("disk_has_room", process.node)

    def disk_has_room(self, node: int) -> None:
        self.world.logs[node].full = False

    def disk_hangs(self) -> None:
        """Writes and flushes end when it comes round; nothing is lost."""
        process = self._running()
        if process is not None:
            log, chance = process.log, self.world.disk_random
            log.hangs_until_ms = self.world.now + chance.choice(HANGS_MS)
            log.stalled = True
            stalled_ms = log.hangs_until_ms - self.world.now + chance.randrange(STALLED_MS_MAX)
            self.world.after(stalled_ms, self.disk_recovers, process.node)

    def disk_recovers(self, node: int) -> None:
        log = self.world.logs[node]
        log.stalled = self.world.now < log.hangs_until_ms

    def retention(self) -> None:
        """The leader deletes its oldest records, none that a client may still send again."""
        world = self.world
        process = world.processes.get(world.controller.partition.leader)
        if not isinstance(process, NodeProcess) or process.replica.role is not Role.LEADER:
            return
        replica = process.replica
        limit = min([replica.high_watermark, *(p.since_offset for p in world.producers)])
        if limit > process.log.start:
            process.log.delete_before(self.rng.randint(process.log.start, limit))
            replica.log_start_moved(process.log.start)
            observer = world.observer
            observer.deleted_before = max(observer.deleted_before, process.log.start)

    def delete_records(self) -> None:
        """A client deletes records at whoever leads, none that another may still send again."""
        world = self.world
        process = world.processes.get(world.controller.partition.leader)
        if isinstance(process, NodeProcess) and not process.paused:
            limit = min(
                [process.replica.high_watermark, *(p.since_offset for p in world.producers)]
            )
            offset = self.deletions.randint(0, limit)
            world.observer.deleted_before = max(world.observer.deleted_before, offset)
            process.disk.deletions.ask(offset)
        if self.active:
            world.after(1 + self.deletions.randrange(DELETE_EVERY_MS_MAX), self.delete_records)

    # ---- links ----

    def isolate(self) -> None:
        node = self.rng.choice(self.world.nodes)
        self._cut([(node, o) for o in self._others(node)] + [(o, node) for o in self._others(node)])

    def one_way(self) -> None:
        node = self.rng.choice(self.world.nodes)
        if self.rng.random() < 0.5:
            self._cut([(node, other) for other in self._others(node)])
        else:
            self._cut([(other, node) for other in self._others(node)])

    def cut_link(self) -> None:
        a, b = self.rng.sample(self.world.nodes, 2)
        self._cut([(a, b), (b, a)])

    def cut_controller(self) -> None:
        node = self.rng.choice(self.world.nodes)
        self._cut([(node, CONTROLLER), (CONTROLLER, node)])

    def _others(self, node: int) -> list[int]:
        return [n for n in (CONTROLLER, *self.world.nodes) if n != node]

    def _cut(self, links: list[tuple[int, int]]) -> None:
        self.world.network.cut.update(links)
        self._later("join", links)

    def join(self, links: list[tuple[int, int]]) -> None:
        self.world.network.cut.difference_update(links)

    def slow_network(self) -> None:
        network = self.world.network
        network.slow = 0.5
        self._later("fast_network")

    def fast_network(self) -> None:
        self.world.network.slow = self.world.options.slow if self.active else 0.0

    def slow_controller(self) -> None:
        """Messages to and from the controller may take longer than any timeout."""
        self.world.network.slow_controller = True
        self._later("fast_controller")

    def fast_controller(self) -> None:
        self.world.network.slow_controller = False

    # ---- the controller ----

    def controller_stall(self) -> None:
        if not self.world.controller.paused:
            self.world.controller.stall()
            self._later("controller_resumes")

    def controller_resumes(self) -> None:
        if self.world.controller.paused:
            self.world.controller.resume()

    def controller_failover(self) -> None:
        self.world.controller.fail_over()

    def change_min_isr(self) -> None:
        if not self.world.controller.paused:
            value = self.rng.randint(1, min(3, self.world.options.replicas))
            self.world.controller.change_min_isr(value)

    def reassign(self) -> None:
        """To some nodes, in any order, none of which has just lost its disk."""
        world = self.world
        count = self.rng.randint(1, min(3, len(world.nodes)))
        target = tuple(self.rng.sample(world.nodes, count))
        if not world.controller.paused and not world.observer.damaged.keys() & set(target):
            world.controller.reassign(target)

    def cancel_reassignment(self) -> None:
        """Unless it might leave a single replica that has just lost its disk."""
        world = self.world
        damaged = world.observer.damaged.keys() & set(world.controller.partition.replicas)
        if not world.controller.paused and not damaged:
            world.controller.reassign(None)

    def cancel_led_by_added(self) -> None:
        """A move is called back while a replica that it adds leads and has appends in doubt.

        Such a replica is elected if it can be.
        """
        self._look_who_leads(LOOKS)

    def _look_who_leads(self, looks: int) -> None:
        controller = self.world.controller
        partition = controller.partition
        if not self.active or not looks:
            return
        if partition.leader in partition.adding_replicas:
            leader = self.world.processes.get(partition.leader)
            if isinstance(leader, NodeProcess) and len(leader.commits):
                self.cancel_reassignment()
                return
        elif not controller.paused and partition.replicas[0] in partition.adding_replicas:
            controller.prefer()
        self.world.after(LOOK_EVERY_MS, self._look_who_leads, looks - 1)

    def successor_leaves(self) -> None:
        """The successor dies or is cut off, before the leader is ready or after.

        In every other case the controller does not hear that the leader is ready.
        """
        controller, world = self.world.controller, self.world
        if controller.paused:
            return
        controller.prefer()
        successor = controller.hand_overs.successor
        if successor is None:
            return
        if self.rng.random() < 0.5:
            self._cut([(controller.partition.leader, CONTROLLER)])
        leave = self._successor_dies if self.rng.random() < 0.75 else self._successor_is_cut_off
        world.after(self.rng.choice((1, 5, 20, 60)), leave, successor)

    def _successor_dies(self, node: int) -> None:
        if self.world.processes.get(node) is not None:
            self.world.kill(node, restart_ms=self._some_ms())

    def _successor_is_cut_off(self, node: int) -> None:
        self._cut([(node, o) for o in self._others(node)] + [(o, node) for o in self._others(node)])

    def preferred_election(self) -> None:
        if not self.world.controller.paused:
            self.world.controller.prefer()
