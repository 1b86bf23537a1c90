"""One process of a partition node: the shell around a real `Replica`.

It carries out effects, pulls from its leader, acknowledges, proposes ISRs and sends heartbeats.
Method names that begin with `on_` are what arrives from the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any, Final

from highwater.hop.append import OUTCOME_NOT_APPENDED, AppendGroup, Failure
from highwater.model.cluster import PartitionState
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.core import lineage, repair
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.divergence import UNKNOWN_EPOCH
from highwater.partition.core.succession import successors
from highwater.partition.core.transitions import Role
from tests.sim.asked_hand_over import CATCH_UP_MS, AskedHandOver
from tests.sim.disk import SimLog
from tests.sim.disk_writes import DiskWrites, FollowerWrite
from tests.sim.log_producers import Entry, SimBatch
from tests.sim.log_view import FETCH_ENTRIES_MAX
from tests.sim.network import CONTROLLER
from tests.sim.role import TOPIC, SimRole

if TYPE_CHECKING:
    from tests.sim.controller import Published
    from tests.sim.world import World

READ_UNCOMMITTED: Final = 0
FETCH_PATIENCE_MS = 150
ALTER_PATIENCE_MS = 200
REGISTER_EVERY_MS = 120
ALIVE_PATIENCE_MS = 400


class NodeProcess:
    """From start to crash or stop; the disk stays."""

    def __init__(self, world: World, node: int, log: SimLog, incarnation: int) -> None:
        self.world = world
        self.node = node
        self.log = log
        self.incarnation = incarnation
        self.paused = False
        self.inbox: list[tuple[str, tuple[Any, ...]]] = []
        self.clock_offset_ms = 0
        self.revision = 0
        self.fenced_nodes: frozenset[int] = frozenset()
        self.wants_shutdown = False
        self.stopping_since_ms: int | None = None
        self.disk = DiskWrites(self)
        self.asked = AskedHandOver(self)
        self.damaged_in: int | None = None
        """The leader epoch in which the replica failed that is to be made anew."""
        self.found_damage: tuple[int, int] | None = None
        """The leader epoch in which others were asked whether they live and are whole, and when."""
        self.parked: dict[int, tuple[int, int, int]] = {}
        self.told: dict[int, tuple[int, int]] = {}
        """By follower, the high watermark and log start that it was told in this leader epoch."""
        self.fetch_sent_ms: int | None = None
        self.boot_id = world.boot_ids[node]
        self.evidence, log.lineage = lineage.begin(
            log.lineage, boot_id=self.boot_id, incarnation=str(incarnation)
        )
        log.reopen()
        self._open_replica(node_epoch=-1)
        self.part = world.site.part(self)

    def _open_replica(self, node_epoch: int) -> None:
        log = self.log
        log.opened_end = log.end
        self.replica: Any = self.world.bug.replica(
            node=self.node,
            node_epoch=node_epoch,
            lag_ms_max=self.world.options.lag_ms,
            epochs=log.epochs,
            log_start_offset=log.start,
            log_end_offset=log.end,
            high_watermark=log.high_watermark,
        )
        self.role = SimRole(self, self.replica)

    @property
    def commits(self) -> Sized:
        """Appends that wait for the high watermark."""
        return self.role.waiters.commits

    def now_ms(self) -> int:
        return self.world.now + self.clock_offset_ms

    # ---- the controller ----

    def tick(self) -> None:
        """Heartbeats, lag, and fetches that nobody answered."""
        if self.world.processes.get(self.node) is not self:
            return
        world = self.world
        if not self.paused:
            self.hand_over()
            self.asked.look()
            if self.replica.node_epoch < 0:
                self._register()
            else:
                state = (self.node, self.replica.node_epoch, self.revision, self.wants_shutdown)
                failed = (world.now, self.out_of_service)
                world.network.send(self.node, CONTROLLER, "on_heartbeat", (*state, failed))
            self.handle(on.LagChecked(now_ms=self.now_ms()))
            if self.replica.role is Role.FOLLOWER and (
                self.fetch_sent_ms is None or world.now - self.fetch_sent_ms >= FETCH_PATIENCE_MS
            ):
                self.fetch()
            if self.replica.isr_due:
                self.handle(on.IsrDue())
            if (
                world.rng.random() < 0.2
                and self.replica.role is not Role.OFFLINE
                and not self.log.stalled
            ):
                self.log.sync(self.replica.high_watermark)
            self.part.tick()
        world.after(world.options.tick_ms, self.tick)

    def stop(self) -> None:
        """SIGTERM: others are to lead, and to have everything, before this node asks to drain."""
        self.stopping_since_ms = self.world.now
        self.asked.node_stops()
        self.hand_over()

    def hand_over(self) -> None:
        """As `node.hand_over` of the partition service."""
        if self.stopping_since_ms is None or self.wants_shutdown:
            return
        if self.replica.role is Role.LEADER:
            self.role.resign()
        if self.handed_over:
            self.world.observer.hands_over(self, self.successors)
            if not self.commits:
                self.part.run(self.role.answers.go_on)
        late = self.world.now - self.stopping_since_ms >= CATCH_UP_MS
        self.wants_shutdown = late or self.handed_over

    def on_hand_over_asked(self, leader_epoch: int, successor: int) -> None:
        self.asked.ask(leader_epoch, successor)

    @property
    def successors(self) -> list[int]:
        replica = self.replica
        return list(successors(replica.isr, replica.node, replica.ineligible))

    @property
    def handed_over(self) -> bool:
        """Every possible successor has all of the log, or this node does not lead."""
        return self.role.handed_over

    @property
    def out_of_service(self) -> bool:
        """The log has failed, and the process lives on and says so."""
        lives = self.world.options.log_failures or self.damaged_in is not None
        return lives and self.replica.role is Role.OFFLINE

    def _register(self) -> None:
        self.world.network.send(
            self.node,
            CONTROLLER,
            "on_register",
            (self.node, self.incarnation, self.evidence, self.boot_id),
        )

    def on_registered(self, node_epoch: int) -> None:
        if node_epoch > self.replica.node_epoch:
            self.replica.node_epoch = node_epoch
            self.log.lineage = lineage.registered(
                self.log.lineage, incarnation=str(self.incarnation)
            )

    def on_stale(self, node_epoch: int) -> None:
        """The controller knows another incarnation: begin again."""
        if node_epoch == self.replica.node_epoch:
            self.world.restart(self.node)

    def on_image(self, image: Published) -> None:
        if image.revision <= self.revision:
            return
        if image.node_epochs.get(self.node) != self.replica.node_epoch:
            return  # It does not know this incarnation yet: what it says is about the former one.
        self.revision = image.revision
        if image.shunned != self.fenced_nodes:
            self.fenced_nodes = image.shunned
            self.handle(on.IneligibleChanged(nodes=image.shunned))
        state = image.partition
        if self.node not in state.replicas:
            self._remove_replica()
            return
        self._look_after_damage(state)
        if (
            state.partition_epoch == self.replica.isr.partition_epoch
            and state.leader_epoch == self.replica.leader_epoch
        ):
            return
        self.handle(
            on.PartitionChanged(
                now_ms=self.now_ms(),
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
                min_isr=image.min_isr,
            )
        )

    def _remove_replica(self) -> None:
        """The log goes, and with it all that was known of it; a failed one goes with the process."""
        role = self.replica.role
        if role is not Role.OFFLINE and (role is not Role.UNASSIGNED or self.log.end):
            self._make_anew()

    def quarantine(self) -> None:
        """Records are damaged that cannot be healed in place: others are asked whether they live."""
        replica = self.replica
        failed = replica.role is Role.OFFLINE or self.log.writing
        if failed or self.node not in replica.isr.committed:
            return
        found = self.found_damage = (replica.leader_epoch, self.world.now)
        self.world.after(ALIVE_PATIENCE_MS, self._give_up_asking, found)
        for peer in set(replica.isr.committed) - {self.node} - self.fenced_nodes:
            question = (self.node, self.incarnation, found)
            self.world.network.send(self.node, peer, "on_who_is_whole", question)

    def _give_up_asking(self, found: tuple[int, int]) -> None:
        if self.found_damage == found:
            self.found_damage = None

    @property
    def steps_back(self) -> bool:
        """Its log is damaged, and nobody will count on it soon."""
        return self.found_damage is not None or self.damaged_in is not None

    def on_who_is_whole(self, node: int, incarnation: int, found: tuple[int, int]) -> None:
        """As ReadRange of the partition service for an empty range."""
        if not repair.refuse_proof(self.replica, found[0], whole=not self.steps_back):
            proof = (self.node, found)
            self.world.network.send(self.node, node, "on_proof", proof, incarnation=incarnation)

    def on_proof(self, peer: int, found: tuple[int, int]) -> None:
        """Another one in sync lives and is whole: the replica may step back (`Quarantine`)."""
        replica = self.replica
        asked = self.found_damage == found and found[0] == replica.leader_epoch
        if not asked or replica.role is Role.OFFLINE or self.log.writing:
            return
        self.found_damage = None
        counted = self.node in replica.isr.committed
        if counted and repair.may_step_back(replica.isr, self.node, (peer,)):
            self.damaged_in = replica.leader_epoch
            self.world.observer.steps_back(self)
            self.handle(on.LogFailed())

    def _look_after_damage(self, state: PartitionState) -> None:
        """As `Quarantine.next_step`."""
        if self.damaged_in is None:
            return
        if repair.nobody_took_over(state, self.damaged_in):
            self._make_anew(keep_log=True)
        elif repair.counts_no_more(state, self.node):
            keep_log = state.leader_epoch <= self.damaged_in
            self._make_anew(keep_log=keep_log)
            if not keep_log:
                self.world.damage(self.node)
                self.world.observer.made_anew(self.node)

    def _make_anew(self, *, keep_log: bool = False) -> None:
        before = self.replica
        self.damaged_in = None
        self.stop_leading()
        self.fetch_sent_ms = None
        if not keep_log:
            self.log = self.world.delete_log(self.node)
        self._open_replica(before.node_epoch)
        # Answers to the former replica find it, not this one, in the real node.
        self.replica.isr.attempts = before.isr.attempts
        self.replica.handle(on.IneligibleChanged(nodes=self.fenced_nodes))

    def on_may_stop(self) -> None:
        if self.wants_shutdown:
            self.world.stop(self.node)

    def on_isr_answer(self, event: on.IsrAnswered) -> None:
        self.handle(event)

    def give_up_proposal(self, attempt: int) -> None:
        if self.world.processes.get(self.node) is self and self.replica.isr.pending == attempt:
            self.handle(on.IsrUnanswered(attempt=attempt))

    # ---- effects ----

    def handle(self, event: on.Event) -> None:
        for wanted in self.replica.handle(event):
            self._perform(wanted)
        self.asked.look()

    def _perform(self, wanted: effect.Effect) -> None:
        observer = self.world.observer
        match wanted:
            case effect.HighWatermarkMoved():
                self.high_watermark_moved()
            case effect.ProposeIsr():
                self._propose(wanted)
            case effect.StartLeading():
                self.told.clear()
                self.log.epochs.assign(wanted.leader_epoch, wanted.start_offset)
                observer.leads(self)
                self.part.leads()
            case effect.BeginEpochBehind():
                self.log.begin_epoch_behind(wanted)
            case effect.StopLeading():
                self.stop_leading()
            case effect.StartFollowing():
                self.fetch_sent_ms = None
                self.fetch()
            case effect.StopFollowing():
                self.fetch_sent_ms = None
            case effect.TruncateLog():
                self._cut(wanted.offset)
            case effect.AdvanceLogStart():
                self.log.delete_before(wanted.offset)
            case effect.RestartLog():
                self.log.restart_at(wanted.offset)
                observer.restarted(self)
                self._truncated()

    def _cut(self, offset: int) -> None:
        self.world.observer.truncates(self, offset)
        self.log.truncate(offset)
        self._truncated()

    def _truncated(self) -> None:
        self.handle(on.LogTruncated(log_start_offset=self.log.start, log_end_offset=self.log.end))
        self.world.observer.follower_log_changed(self)
        self.fetch()

    def _propose(self, wanted: effect.ProposeIsr) -> None:
        self.world.network.send(
            self.node,
            CONTROLLER,
            "on_alter_partition",
            (self.node, self.incarnation, self.replica.node_epoch, wanted),
        )
        self.world.after(ALTER_PATIENCE_MS, self.give_up_proposal, wanted.attempt)

    def stop_leading(self) -> None:
        self.asked.end()
        self.role.stop()
        self.parked.clear()
        self.part.stops_leading()

    def high_watermark_moved(self) -> None:
        """Of a leader."""
        self.role.moved(self.replica.high_watermark)

    def on_part(self, name: str, args: tuple[Any, ...]) -> None:
        getattr(self.part, name)(*args)

    # ---- follower ----

    def fetch(self) -> None:
        replica = self.replica
        if self.log.writing or not replica.may_ask():
            return
        self.fetch_sent_ms = self.world.now
        self.world.network.send(
            self.node,
            replica.leader,
            "on_fetch",
            (
                self.node,
                self.incarnation,
                replica.node_epoch,
                replica.leader_epoch,
                replica.log_end_offset,
                replica.epochs.latest,
                replica.kept_log_start,
            ),
            repeatable=True,
        )

    def on_fetched(
        self, leader_epoch: int, offset: int, entries: list[Entry], high: int, start: int
    ) -> None:
        replica, log = self.replica, self.log
        late = not replica.may_fetch(leader_epoch) or offset != replica.log_end_offset
        if late or log.writing:
            return
        self.fetch_sent_ms = None
        if entries and self.is_full():
            return  # The next tick asks again.
        told = FollowerWrite(leader_epoch, high, start)
        if entries and log.stalled:
            first_run = [entry for entry in entries if entry[0] == entries[0][0]]
            self.disk.write_later(first_run, told)
            return
        for entry in entries:
            log.append(entry)
            self.world.observer.appended(self, entry)
        self.take_offsets(told)
        if entries:
            self.world.observer.follower_log_changed(self)
            self.disk.follow_on()
        else:
            self.fetch()

    def take_offsets(self, told: FollowerWrite) -> None:
        """The log's end, and what the leader says of its own offsets."""
        replica = self.replica
        moved = replica.replicated(self.log.end, self.role.counted_end(), told.high_watermark)
        if moved is not None:
            self.world.observer.follower_moved(self)
            self.role.moved(moved)
        self.disk.deletions.follow(told.log_start)

    def on_fetch_refused(self, leader_epoch: int, event: on.Diverged | on.OutOfRange) -> None:
        if self.replica.may_fetch(leader_epoch) and not self.log.writing:
            self.handle(event)

    def is_full(self) -> bool:
        """The disk is full: nothing can be appended. In some seeds the log fails with the attempt."""
        faults = self.world.faults
        if self.log.full and self.world.options.log_failures and faults.may_damage(self.node):
            faults.write_fails(self)
        return self.log.full

    # ---- leader ----

    def on_fetch(
        self, node: int, incarnation: int, node_epoch: int, epoch: int, offset: int, last: int,
        kept_log_start: int,
    ) -> None:  # fmt: skip
        replica = self.replica
        if replica.refuse_follower(node, node_epoch, epoch):
            return  # It asks again when it has a newer image.
        event: on.Diverged | on.OutOfRange
        diverging = self._compare(offset, last)
        if diverging == UNKNOWN_EPOCH:
            event = on.OutOfRange(
                leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last,
                leader_log_start_offset=self.log.start,
                leader_log_end_offset=self.log.end,
            )
        elif diverging is not None:
            event = on.Diverged(
                leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last,
                epoch=diverging[0],
                end_offset=diverging[1],
            )
        else:
            self.disk.deletions.heard(node, kept_log_start)
            self._follower_progress(node, incarnation, offset)
            return
        self.world.network.send(
            self.node, node, "on_fetch_refused", (epoch, event), incarnation=incarnation
        )

    def _compare(self, offset: int, last: int) -> tuple[int, int] | None:
        if offset < self.log.start:
            return UNKNOWN_EPOCH
        diverging: tuple[int, int] | None = self.replica.divergence(offset, last)
        return diverging

    def _follower_progress(self, node: int, incarnation: int, offset: int) -> None:
        replica = self.replica
        follower = replica.followers[node]
        if replica.follower_fetched(follower, offset, self.now_ms()) is not None:
            self.high_watermark_moved()
        if replica.isr_due:
            self.handle(on.IsrDue())
        self.hand_over()
        self.asked.look()
        self.parked[node] = (incarnation, replica.leader_epoch, offset)
        self.answer_parked()

    def answer_parked(self) -> None:
        replica, log = self.replica, self.log
        for node, (incarnation, epoch, offset) in list(self.parked.items()):
            if node not in replica.followers:
                del self.parked[node]  # It has no replica any more.
                continue
            news = (replica.high_watermark, self.disk.deletions.told_start)
            if offset >= log.end and news == self.told.get(node):
                continue
            del self.parked[node]
            self.told[node] = news
            entries = log.read(offset, min(log.end, offset + FETCH_ENTRIES_MAX))
            self.world.network.send(
                self.node,
                node,
                "on_fetched",
                (epoch, offset, entries, replica.high_watermark, log.start),
                incarnation=incarnation,
                repeatable=True,
            )

    def on_produce(
        self, client: int, request: int, epoch: int, acks: int, value: int, pid: int, sequence: int
    ) -> None:
        batch = SimBatch(value, pid, sequence)
        answer = _Answer(self, client, request)
        group = AppendGroup(TOPIC, 0, epoch, acks, DEFAULT_INSTANCE, answer)
        group.batches.append(batch)
        group.nbytes = len(batch)
        self.role.append(group)

    def reply(self, client: int, name: str, args: tuple[Any, ...]) -> None:
        self.world.network.send(self.node, client, name, args)

    def on_consume(self, client: int, request: int, epoch: int, offset: int, last: int) -> None:
        found: Any = self.role.read(epoch, offset, last, READ_UNCOMMITTED)
        entries = found.records or []
        if entries:
            self.world.observer.serves(self, offset, entries)
        at = (found.diverging_epoch, found.diverging_end_offset)
        self.reply(
            client,
            "on_consumed",
            (
                request,
                found.error_code,
                self.replica.leader_epoch,
                offset,
                entries,
                None if found.diverging_epoch < 0 else at,
                self.log.start,
            ),
        )


class _Answer:
    """Tells a client what has become of its batch."""

    def __init__(self, process: NodeProcess, client: int, request: int) -> None:
        self._process = process
        self._client = client
        self._request = request

    def take_result(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`."""
        del group
        failure = failures[0] if failures else None
        if failure is None:
            self._tell("on_appended", base_offsets[0])
        elif failure.outcome == OUTCOME_NOT_APPENDED:
            self._tell("on_refused", failure.error_code)
        else:
            self._tell("on_unknown")
        return True

    def _tell(self, name: str, *what: int) -> None:
        self._process.reply(self._client, name, (self._request, *what))
