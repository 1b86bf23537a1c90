"""Checks, as things happen, the rules that concern several replicas at once.

`history` is the log as it was committed: it grows whenever a leader's high watermark does. Each
replica's agreement with it is kept as one number, so that every check costs what has changed. A
loss that the rules allow (an unclean election, or the last known leader after everybody lost their
tails) cuts the history; it is noted by its leader epoch, and older epochs are not judged any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from highwater.model.cluster import PartitionState
from highwater.partition.core import invariants
from highwater.partition.core.replica import Replica
from highwater.partition.core.transitions import Role
from tests.sim.log_producers import Entry
from tests.sim.node import NodeProcess

if TYPE_CHECKING:
    from tests.sim.clients import Consumer, Producer
    from tests.sim.gateways import Gateway
    from tests.sim.world import World


LOST: Entry = (-1, -1, -1, -1)
"""Stands for records before the start of a log that no other log has."""


class ViolationError(AssertionError):
    """An invariant does not hold. The text begins with its number."""


class HandedOver(NamedTuple):
    """A leader that has resigned, and says that its successors have its whole log."""

    node: int
    end: int
    successors: dict[int, int]
    """Nodes that may be elected, with their incarnations, without those that lost their logs since."""


class Observer:
    """R1 to R10, R12 and R16 to R18 in one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history: list[Entry] = []
        self.agreed: dict[int, int] = dict.fromkeys(world.nodes, 0)
        self.authored: dict[tuple[int, int], tuple[Entry, int | None]] = {}
        self.deleted_before = 0
        """Retention has deleted what is before: whether logs agreed there cannot be told any more."""
        self.kept: dict[int, int] = {}
        """By node, the log start that it has promised to have after a crash, too."""
        self.leaders: dict[int, tuple[int, int]] = {}
        self.told_epochs: dict[int, int] = {}
        """The newest leader epoch that each gateway has told a client."""
        self.sequences: dict[int, int] = {}
        self.late_offsets: dict[tuple[int, int], int] = {}
        """By node and leader epoch, where records begin that the node's disk took late."""
        self.damaged: dict[int, int] = {}
        """Nodes that may have lost records, until the controller knows it: the incarnation."""
        self.stepped_back: set[int] = set()
        """Nodes that were killed after they had given up their damaged replica, until they register:
        the controller may learn late that nobody may rely on it (seed 13341)."""
        self.damaged_ms: dict[int, int] = {}
        self.removed_ms: dict[int, int] = {}
        """When nodes last deleted a replica that the controller had taken away."""
        self.began_ms: dict[int, int] = {}
        """When the controller began each leader epoch. By the time the leader knows it, followers
        may have fetched in it and have been removed (seed 6702)."""
        self.high_watermarks: dict[int, tuple[int, int, int]] = {}
        """By node: the incarnation and leader epoch in which it led last, and its HW."""
        self.doubted: frozenset[int] = frozenset()
        """Nodes that the controller just found to lack the proof that their logs are whole."""
        self.joining: frozenset[int] = frozenset()
        """The ISR that a leader has just proposed: it knows that all of these have everything."""
        self.handed_over: dict[int, HandedOver] = {}
        """By leader epoch, the log that its leader has handed over to the next leader."""
        self.excused: set[int] = set()
        """Leader epochs that end although a leader lives that has not handed over."""
        self.alone: dict[int, int] = {}
        """By leader epoch, the end of what its leader acknowledged with acks=1."""
        self.lossy_epoch = -1
        self.losses = 0
        self.loss_pending = False
        """After a loss, until the new leader leads."""
        self.dirty = False

    @property
    def end(self) -> int:
        return len(self.history)

    def check(self) -> None:
        """After every event; costs nothing if nothing happened."""
        if self.dirty and not self.loss_pending:
            self.dirty = False
            self._check_quorum()

    # ---- logs ----

    def appended(self, process: NodeProcess, entry: Entry) -> None:
        """R2, R8: one author per epoch and offset, and the same record before it everywhere."""
        log = process.log
        before = log.entries[-2][0] if len(log.entries) > 1 else None
        self._appended(process, entry, log.end - 1, before)

    def writes(
        self, process: NodeProcess, entry: Entry, offset: int, written: Sequence[Entry]
    ) -> None:
        """The same for what is being written at the end of the log, behind `written`."""
        entries = written or process.log.entries
        self._appended(process, entry, offset, entries[-1][0] if entries else None)

    def _appended(
        self, process: NodeProcess, entry: Entry, offset: int, before: int | None
    ) -> None:
        known = self.authored.get((entry[0], offset))
        if known is None:
            replica = process.replica
            if replica.role is not Role.LEADER or replica.leader_epoch != entry[0]:
                raise ViolationError(f"R2: node {process.node} invented {entry} at {offset}")
            if entry[0] in self.handed_over:
                raise ViolationError(f"R1: node {process.node} appends after it has handed over")
            self.authored[entry[0], offset] = (entry, before)
        elif known[0] != entry or (
            offset > self.deleted_before and None not in (before, known[1]) and before != known[1]
        ):
            raise ViolationError(
                f"R2: node {process.node} has {entry} after epoch {before} at {offset}, "
                f"others have {known[0]} after epoch {known[1]}"
            )

    def follower_log_changed(self, process: NodeProcess) -> None:
        """R7: a follower knows the epochs of the records that it has, and no others.

        Those of deleted records it may have forgotten before a crash took its log start back (seed 4).
        """
        invariants.check_epochs(process.replica)
        log = process.log
        begins = max(log.start, self.deleted_before)
        if log.end > begins and log.epochs.latest != log.entries[-1][0]:
            raise ViolationError(
                f"R7: node {process.node} has {log.entries[-1]} last and knows of epochs "
                f"{log.epochs.entries()}"
            )

    def written_late(self, process: NodeProcess, offset: int) -> None:
        """R7: whatever a replica has become, it knows the epochs of records that its disk took late.

        The records begin at `offset`.
        """
        self.late_offsets[process.node, process.replica.leader_epoch] = offset
        invariants.check_epochs(process.replica)
        log = process.log
        for place, entry in enumerate(log.read(log.start, log.end), log.start):
            if log.epochs.epoch_for(place) != entry[0]:
                raise ViolationError(
                    f"R7: node {process.node} has {entry} at {place} and knows of epochs "
                    f"{log.epochs.entries()}"
                )

    def truncates(self, process: NodeProcess, offset: int) -> None:
        """R7: nothing committed is cut as long as elections are clean, and nothing in common ever.

        What retention deleted before is not cut: a leader whose log still has it may say where it
        began (seed 23416).
        """
        held = max(offset, process.log.start)
        if held < process.replica.high_watermark and self.lossy_epoch < 0:
            raise ViolationError(
                f"R7: node {process.node} cuts at {offset}, below its high watermark "
                f"{process.replica.high_watermark}"
            )
        kept_by_leader = self._leader_reads(process.replica, held)
        if kept_by_leader and kept_by_leader == process.log.read(held, held + 1):
            raise ViolationError(
                f"R7: node {process.node} cuts {kept_by_leader} at {held}, its leader has it, too"
            )
        self.agreed[process.node] = min(self.agreed[process.node], offset)
        self._keeps_no_more(process.node, offset)
        self.dirty = True

    def _keeps_no_more(self, node: int, offset: int) -> None:
        """The node's log ends there: its start may go back with it, after an unclean election."""
        if self.kept.get(node, -1) > offset:
            self.kept[node] = offset

    def _leader_reads(self, follower: Replica, offset: int) -> list[Entry]:
        """What the leader of the follower's epoch has there; nothing if it is not known."""
        leader = self.world.processes.get(follower.leader)
        if (
            not isinstance(leader, NodeProcess)
            or leader.replica.role is not Role.LEADER
            or leader.replica.leader_epoch != follower.leader_epoch
            or offset < leader.log.base
            or offset >= self.late_offsets.get((leader.node, follower.leader_epoch), offset + 1)
        ):
            return []  # Nor what it got late: it may not have had that when it answered.
        return leader.log.read(offset, offset + 1)

    def restarted(self, process: NodeProcess) -> None:
        self.agreed[process.node] = process.log.base
        self._keeps_no_more(process.node, process.log.base)
        self.dirty = True

    def damages(self, node: int, next_incarnation: int) -> None:
        """The node's disk lost something, or all."""
        self._is_no_successor(node)
        self.damaged[node] = next_incarnation
        self.damaged_ms[node] = self.world.now
        self.agreed[node] = 0
        self.dirty = True

    def removed(self, node: int) -> None:
        """The node has deleted its log, as the controller has taken its replica away."""
        self._is_no_successor(node)
        self.removed_ms[node] = self.world.now
        self.kept.pop(node, None)
        self.agreed[node] = 0
        self.dirty = True

    def made_anew(self, node: int) -> None:
        """No rule relies on the records of the node's damaged log any more."""
        self.damaged.pop(node, None)

    def steps_back(self, process: NodeProcess) -> None:
        """R13: of the replicas in sync that step back for damage one stays, which knows of none."""
        replica, running = process.replica, self.world.processes
        others = (running.get(node) for node in replica.isr.committed)
        if all(p is not None and p.damaged_in == replica.leader_epoch for p in others):
            raise ViolationError(f"R13: all of {replica.isr.committed} step back for one another")

    def registered(self, node: int, incarnation: int) -> None:
        """The controller has decided by now whether the node's log is whole."""
        self.stepped_back.discard(node)
        if incarnation >= self.damaged.get(node, incarnation + 1):
            del self.damaged[node]
        self.dirty = True

    def agreement(self, node: int) -> int:
        """The number of records, from the first one on, that the node's log shares with history."""
        log = self.world.logs[node]
        history, base, entries = self.history, log.base, log.entries
        agreed = max(self.agreed[node], log.start)  # Nobody reads what is before its start.
        limit = min(log.end, len(history))
        while agreed < limit and entries[agreed - base] == history[agreed]:
            agreed += 1
        self.agreed[node] = agreed
        return agreed

    def deleted(self, process: NodeProcess, offset: int) -> None:
        """R18: DeleteRecords is answered, so live replicas begin there, and will after a crash."""
        replica = process.replica
        began = self.began_ms[replica.leader_epoch]
        counted = [process.node]
        for follower in replica.progress:
            # As in `committed`: one that lost its disk or replica since had it when it fetched.
            lost = max(
                self.damaged_ms.get(follower.node, -1), self.removed_ms.get(follower.node, -1)
            )
            lives = follower.in_maximal_isr or follower.node not in replica.ineligible
            if lives and lost < began:
                counted.append(follower.node)
        for node in counted:
            self.kept[node] = max(self.kept.get(node, 0), offset)
            self._check_start(node)

    def _check_start(self, node: int) -> None:
        start = self.world.logs[node].start
        if start < self.kept.get(node, 0):
            raise ViolationError(
                f"R18: the log of node {node} begins at {start}, "
                f"DeleteRecords was answered for {self.kept[node]}"
            )

    # ---- leaders ----

    def hands_over(self, process: NodeProcess, successors: list[int]) -> None:
        """A leader lets others lead; from now on it may append nothing."""
        replica, running = process.replica, self.world.processes
        if replica.role is Role.LEADER and replica.resigned:
            successors_now = {n: running[n].incarnation for n in successors if running.get(n)}
            self.handed_over[replica.leader_epoch] = HandedOver(
                process.node, process.log.end, successors_now
            )

    def leads_on(self, epoch: int) -> None:
        """A leader that was to hand over appends again.

        If it had said that it was ready, the controller may elect its successor all the same.
        """
        if self.handed_over.pop(epoch, None) is not None:
            self.excused.add(epoch)

    def replaced_without_hand_over(self, epoch: int) -> None:
        """Its leader was asked, and did not answer or went on too often."""
        self.excused.add(epoch)

    def acknowledges_alone(self, process: NodeProcess, offset: int) -> None:
        """With acks=1."""
        epoch = process.replica.leader_epoch
        self.alone[epoch] = max(self.alone.get(epoch, 0), offset + 1)

    def _check_replaced(self, before: PartitionState, after: PartitionState) -> None:
        """R1: a leader that lives is replaced only when it has handed over.

        Otherwise what it alone has acknowledged is lost, and appends with acks=all are in doubt.
        """
        controller, epoch = self.world.controller, before.leader_epoch
        node = controller.image.nodes.get(before.leader)
        leader, successor = (self.world.processes.get(n) for n in (before.leader, after.leader))
        if (
            node is None
            or node.fenced
            or node.draining
            or controller.offline.get(before.leader)
            or epoch in self.handed_over
            or epoch in self.excused
            or not isinstance(leader, NodeProcess)
            or leader.replica.role is not Role.LEADER
            or leader.replica.leader_epoch != epoch
        ):
            return
        end = successor.log.end if isinstance(successor, NodeProcess) else 0
        if len(leader.commits) or self.alone.get(epoch, 0) > end:
            raise ViolationError(
                f"R1: node {before.leader} lives and has not handed over: "
                f"{len(leader.commits)} appends are in doubt, {self.alone.get(epoch, 0)} records "
                f"were acknowledged with acks=1, node {after.leader} has {end}"
            )

    def _is_no_successor(self, node: int) -> None:
        for handed in self.handed_over.values():
            handed.successors.pop(node, None)

    def _check_successor_has_all(self, process: NodeProcess) -> None:
        """R1: also what only the leader had acknowledged (acks=1) outlives an orderly stop."""
        handed = self.handed_over.get(process.replica.leader_epoch - 1)
        if (
            handed is not None
            and handed.successors.get(process.node) == process.incarnation
            and process.log.end < handed.end
        ):
            raise ViolationError(
                f"R1: node {process.node} takes over from node {handed.node} with "
                f"{process.log.end} of {handed.end} records"
            )

    def leads(self, process: NodeProcess) -> None:
        """R1, R6: one leader per epoch, once, and with all that was committed."""
        epoch = process.replica.leader_epoch
        identity = (process.node, process.incarnation)
        if self.leaders.setdefault(epoch, identity) != identity:
            raise ViolationError(f"R6: epoch {epoch} led by {self.leaders[epoch]} and {identity}")
        invariants.check_epochs(process.replica)
        self._check_successor_has_all(process)
        if self.loss_pending and epoch >= self.lossy_epoch:
            self._rebase(process)
        newest = self.world.controller.partition.leader_epoch
        if epoch == newest and self.agreement(process.node) < self.end:
            raise ViolationError(
                f"R1: node {process.node} leads epoch {epoch} with {self.agreed[process.node]} "
                f"of {self.end} committed records"
            )

    def sees(self, process: NodeProcess) -> None:
        """After every event. R4: a leader's high watermark never goes back in its epoch."""
        replica = process.replica
        if self.kept:
            self._check_start(process.node)
        if replica.role is not Role.OFFLINE:
            self._sees_log(process)
        if replica.role is not Role.LEADER:
            return
        successor = process.asked.successor
        if successor is not None and successor not in process.successors:
            raise ViolationError(
                f"R16: node {process.node} holds appends for node {successor}, which cannot lead"
            )
        if replica.resigned and successor is None and process.stopping_since_ms is None:
            raise ViolationError(f"R16: node {process.node} has resigned and hands over to nobody")
        present = (process.incarnation, replica.leader_epoch, replica.high_watermark)
        before = self.high_watermarks.get(process.node)
        self._sees_waits(process, moved=before is not None and before[:2] == present[:2])
        if before == present:
            return
        if before is not None and before[:2] == present[:2] and before[2] > present[2]:
            raise ViolationError(
                f"R4: the high watermark of node {process.node} goes back from {before[2]} to "
                f"{present[2]} in epoch {replica.leader_epoch}"
            )
        self.high_watermarks[process.node] = present

    def _sees_waits(self, process: NodeProcess, *, moved: bool) -> None:
        """R16: whoever waits for the high watermark of a leader hears when it has `moved`, but for the one
        with which it begins.
        """
        high, role = process.replica.high_watermark, process.role
        if not moved:
            role.told_high_watermark = high
        if role.told_high_watermark != high:
            raise ViolationError(
                f"R16: node {process.node} has told {role.told_high_watermark} for its high "
                f"watermark, it is {high}"
            )
        waits = role.waiters.commits
        if waits and waits[0].required_offset <= high:
            raise ViolationError(
                f"R16: node {process.node} has committed {high}, and does not answer what waits "
                f"for {waits[0].required_offset}"
            )

    def _sees_log(self, process: NodeProcess) -> None:
        """R5: a replica knows where its log ends. R1: it counts no more than flush.messages lets it."""
        replica, log = process.replica, process.log
        if replica.log_end_offset != log.end:
            raise ViolationError(
                f"R5: node {process.node} takes its log to end at {replica.log_end_offset}, "
                f"it ends at {log.end}"
            )
        if log.flush_messages and replica.counted_end_offset > log.flushed_end:
            raise ViolationError(
                f"R1: node {process.node} counts {replica.counted_end_offset} records, "
                f"{log.flushed_end} at most are flushed as flush.messages asks"
            )

    def committed(self, process: NodeProcess) -> None:
        """The high watermark of a leader moved: R1 to R5."""
        replica = process.replica
        if replica.leader_epoch < self.lossy_epoch:
            return
        high = replica.high_watermark
        if self.agreement(process.node) < min(high, self.end):
            raise ViolationError(
                f"R4: below its high watermark {high}, node {process.node} differs from what was "
                f"committed at {self.agreed[process.node]}"
            )
        for entry in process.log.read(self.end, high):
            self._commit(entry)
        # A node that lost its disk or replica in this epoch may have had the record when it fetched.
        began = self.began_ms[replica.leader_epoch]
        copies = sum(
            self.damaged_ms.get(node, -1) >= began
            or self.removed_ms.get(node, -1) >= began
            or self.agreement(node) >= high
            for node in self.world.nodes
        )
        if copies < min(replica.min_isr, len(replica.replicas)):
            raise ViolationError(f"R1: committed {high} on {copies} replicas only")
        self.dirty = True

    def _commit(self, entry: Entry) -> None:
        pid, sequence = entry[2], entry[3]
        if pid >= 0:
            expected = self.sequences.get(pid, -1) + 1
            # After a loss, a producer that is not known any more may go on anywhere (KIP-360).
            forgotten = self.lossy_epoch >= 0 and pid not in self.sequences
            if sequence != expected and not forgotten:
                raise ViolationError(
                    f"R10: producer {pid} committed sequence {sequence} instead of {expected}"
                )
            self.sequences[pid] = sequence
        self.history.append(entry)

    def follower_moved(self, process: NodeProcess) -> None:
        """R5: a follower's high watermark is at most its leader's."""
        if process.replica.high_watermark > self.end and self.lossy_epoch < 0:
            raise ViolationError(
                f"R5: node {process.node} follows to high watermark "
                f"{process.replica.high_watermark}, {self.end} are committed"
            )

    def _check_quorum(self) -> None:
        """R3, R12: replicas that may be elected have everything that was committed."""
        partition = self.world.controller.partition
        for node in (*partition.isr, *partition.eligible_leaders):
            if node in self.damaged:
                continue
            log = self.world.logs[node]
            # After a loss the new leader's own high watermark counts, flushed or not.
            flushes = log.flush_messages and self.lossy_epoch < 0
            if flushes and log.flushed_end < self.end:
                raise ViolationError(
                    f"R1: {self.end} records are committed, node {node} has flushed "
                    f"{log.flushed_end} of them"
                )
            if self.agreement(node) < self.end:
                raise ViolationError(
                    f"R3: node {node} may be elected with {self.agreed[node]} of {self.end} "
                    f"committed records; ISR {partition.isr}, ELR {partition.eligible_leaders}"
                )

    # ---- the controller ----

    def partition_changed(self, before: PartitionState, after: PartitionState) -> None:
        """R6, R12: epochs grow, and leaders come from the replicas that have everything."""
        if after.partition_epoch != before.partition_epoch + 1:
            raise ViolationError(f"R12: {before} became {after}")
        moved = after.leader != before.leader
        if self.world.trace is not None:
            self.world.say(f"partition {after}, damaged {self.damaged}")
        if after.leader_epoch < before.leader_epoch or (
            moved and after.leader_epoch == before.leader_epoch
        ):
            raise ViolationError(f"R6: epoch {after.leader_epoch} after {before}")
        if after.leader >= 0 and after.leader not in after.isr:
            raise ViolationError(f"R12: leader outside the ISR, {after}")
        if moved and after.leader >= 0:
            self._check_replaced(before, after)
        self.dirty = True
        self.began_ms.setdefault(after.leader_epoch, self.world.now)
        trusted = {*before.isr, *before.eligible_leaders, *self.joining}
        if moved and after.leader >= 0 and after.leader not in trusted:
            trusted -= self.damaged.keys() | self.doubted
            if not self.world.options.unclean and (trusted or not self.world.options.may_lose):
                raise ViolationError(f"R1: {after.leader} elected, {trusted} were eligible")
            self._lose(after)

    def _lose(self, after: PartitionState) -> None:
        """From now on the log counts that the new leader has when it begins to lead."""
        if self.world.trace is not None:
            self.world.say(f"LOSS: {self.end} records were committed, {after}")
        self.losses += 1
        self.lossy_epoch = after.leader_epoch
        self.sequences.clear()
        self.loss_pending = True

    def _rebase(self, process: NodeProcess) -> None:
        self.loss_pending = False
        kept = self.agreement(process.node)
        del self.history[kept:]
        # Its own high watermark may come from a branch that an earlier loss had cut: it counts
        # again, since this leader serves it.
        self.history += [LOST] * (kept - self.end)
        self.history += process.log.read(kept, process.replica.high_watermark)
        for node in self.agreed:
            self.agreed[node] = min(self.agreed[node], kept)

    # ---- clients ----

    def acknowledges(self, process: NodeProcess, offset: int) -> None:
        """R1: an acks=all answer names a record that is committed."""
        if process.replica.leader_epoch < self.lossy_epoch:
            return
        entry = process.log.read(offset, offset + 1)
        if offset >= self.end or entry != [self.history[offset]]:
            raise ViolationError(f"R1: {entry} acknowledged at {offset}, {self.end} are committed")

    def serves(self, process: NodeProcess, offset: int, entries: list[Entry]) -> None:
        """R9: consumers see nothing that is not committed."""
        if process.replica.leader_epoch >= self.lossy_epoch and offset + len(entries) > self.end:
            raise ViolationError(f"R9: served up to {offset + len(entries)} of {self.end}")

    def told(self, gateway: Gateway, epoch: int) -> None:
        """R17: no gateway answers with an older leader epoch than it has before."""
        before = self.told_epochs.get(gateway.number, -1)
        if epoch < before:
            raise ViolationError(f"R17: gateway {gateway.number} tells {epoch} after {before}")
        self.told_epochs[gateway.number] = epoch

    def consumed(self, consumer: Consumer, epoch: int, offset: int, entries: list[Entry]) -> None:
        """R4, R17: the same record at the same offset, for ever; epochs only grow."""
        if epoch < consumer.consumed_epoch:
            raise ViolationError(f"R17: epoch {epoch} after {consumer.consumed_epoch}")
        if epoch < self.lossy_epoch:
            return
        if entries != self.history[offset : offset + len(entries)]:
            raise ViolationError(f"R4: at {offset}, a consumer saw {entries}")

    def consumer_cut(self, consumer: Consumer, diverging: tuple[int, int]) -> None:
        if self.lossy_epoch < 0:
            raise ViolationError(f"R4: a consumer at {consumer.offset} is told {diverging}")

    def sequence_lost(self, producer: Producer) -> None:
        if self.lossy_epoch < 0:
            raise ViolationError(
                f"R10: producer {producer.pid} is refused with sequence {producer.sequence}"
            )
