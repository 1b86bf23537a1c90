"""Three replicas without time and without a network: every step is one call, every state a value.

The same `Replica`, elections and AlterPartition as in the simulation, for tests that want to say
exactly what happens, and for the exhaustive check, which tries every order of steps. A step takes
no time and is not interrupted; lost answers are steps of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from highwater.controller.core.change_leader import without_failed_replicas
from highwater.controller.core.election import Candidates, after_isr_change, elect
from highwater.controller.core.reassign import cancel, completed, is_moving, settled, start
from highwater.model.cluster import PartitionState
from highwater.model.ids import LeaderEpoch, NodeId
from highwater.partition.core import invariants
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.divergence import UNKNOWN_EPOCH
from highwater.partition.core.followers import mark_maximal
from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.replica import Replica
from highwater.partition.core.transitions import Role

LAG_MS = 10
Record = tuple[int, str]
"""(leader epoch, value)."""


class LostError(AssertionError):
    """A committed record is missing where it has to be, or logs differ."""


class Saved(NamedTuple):
    """One replica as a value; what `Model.save` returns is made of these."""

    log_end_offset: int
    epochs: tuple[tuple[int, int], ...]
    role: Role
    leader: int
    leader_epoch: int
    high_watermark: int
    replicas: tuple[int, ...]
    epoch_start_offset: int
    resigned: bool
    isr: tuple[Any, ...]
    followers: tuple[tuple[Any, ...], ...]


def epochs_of(replica: Replica) -> LeaderEpochCache:
    """The epochs of a replica's log, to be changed: the model is the log, too."""
    epochs = replica.epochs
    assert isinstance(epochs, LeaderEpochCache)
    return epochs


_T = TypeVar("_T")


class _ByNode(dict[int, _T]):
    """What each node has; after `restore` it is made of what was saved when it is first used.

    Most steps concern one node or two, and the exhaustive check restores a state for each step.
    """

    def __init__(self, make: Callable[[int], _T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, node: int) -> _T:
        value = self[node] = self._make(node)
        return value


class Model:
    """A partition on the first of the nodes 1 to `size`, led by node 1 in epoch 1."""

    def __init__(
        self,
        *,
        size: int = 3,
        min_isr: int = 1,
        replica: Callable[..., Replica] = Replica,
        factor: int | None = None,
    ) -> None:
        """`factor` is the number of replicas; None is one on each node."""
        self.min_isr = min_isr
        self._make = replica
        self.nodes = tuple(map(NodeId, range(1, size + 1)))
        self.alive = set(self.nodes)
        self.partition = PartitionState(
            partition=0,
            leader=self.nodes[0],
            leader_epoch=LeaderEpoch(1),
            partition_epoch=1,
            replicas=self.nodes[:factor],
            isr=self.nodes[:factor],
            last_known_leader=self.nodes[0],
        )
        self._saved_logs: dict[int, tuple[Record, ...]] = dict.fromkeys(self.nodes, ())
        self._saved: dict[int, Saved] = {}
        self.logs = _ByNode[list[Record]](lambda node: list(self._saved_logs[node]))
        self.replicas = _ByNode[Replica](self._made_of_saved)
        for node in self.nodes:
            self.replicas[node] = self._open(node, ())
        self.history: list[Record] = []
        self.late: dict[int, tuple[int, int, int]] = {}
        """By node, a fetch of a replica that is no more: its leader, leader epoch and offset."""
        for node in self.nodes:
            self.learn(node)

    def _open(self, node: int, epochs: tuple[tuple[int, int], ...], high: int = 0) -> Replica:
        return self._make(
            node=node,
            node_epoch=100 + node,
            lag_ms_max=LAG_MS,
            epochs=LeaderEpochCache(epochs),
            log_start_offset=0,
            log_end_offset=len(self.logs[node]),
            high_watermark=high,
        )

    # ---- steps ----

    def learn(self, node: int) -> None:
        """The node learns the partition's present state; a log that is not wanted is deleted."""
        state = self.partition
        if node not in state.replicas:
            self._renew(node)
            return
        self._handle(
            node,
            on.PartitionChanged(
                now_ms=0,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
                min_isr=self.min_isr,
            ),
        )

    def produce(self, node: int, value: str) -> bool:
        """Appends to what believes to be the leader, with acks=all; False if it refuses."""
        replica = self.replicas[node]
        if replica.refuse_append(replica.leader_epoch, -1):
            return False
        self.logs[node].append((replica.leader_epoch, value))
        if replica.appended(len(self.logs[node]), len(self.logs[node])) is not None:
            self._committed(node)
        return True

    def fetch(self, node: int, *, answered: bool = True) -> bool:
        """A follower asks its leader and takes the answer, unless that is lost."""
        follower = self.replicas[node]
        if not follower.may_fetch(follower.leader_epoch) or follower.leader not in self.alive:
            return False
        leader_node, epoch = follower.leader, follower.leader_epoch
        leader = self.replicas[leader_node]
        offset, last = follower.log_end_offset, follower.epochs.latest
        if leader.refuse_follower(node, follower.node_epoch, epoch):
            return False
        diverging = leader.divergence(offset, last)
        if diverging is None and (
            leader.follower_fetched(leader.followers[node], offset, 0) is not None
        ):
            self._committed(leader_node)
        if not answered:
            return diverging is None
        if diverging is not None:
            self._diverged(node, epoch, offset, last, diverging)
            return True
        for record in self.logs[leader_node][offset:]:
            self.logs[node].append(record)
            if record[0] > follower.epochs.latest:
                epochs_of(follower).assign(record[0], len(self.logs[node]) - 1)
        end = len(self.logs[node])
        follower.replicated(end, end, leader.high_watermark)
        return True

    def _diverged(self, node: int, epoch: int, offset: int, last: int, at: tuple[int, int]) -> None:
        event: on.Diverged | on.OutOfRange
        if at == UNKNOWN_EPOCH:
            event = on.OutOfRange(
                leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last,
                leader_log_start_offset=0,
                leader_log_end_offset=len(self.logs[self.replicas[node].leader]),
            )
        else:
            event = on.Diverged(
                leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last,
                epoch=at[0],
                end_offset=at[1],
            )
        self._handle(node, event)

    def change_isr(
        self, node: int, *, lag: bool, answered: bool = True, arrives: bool = True
    ) -> bool:
        """The leader proposes replicas that caught up, or drops those that lag; the controller decides.

        Unless the request is lost, or the answer, of which the leader cannot tell which it was.
        """
        event = on.LagChecked(now_ms=LAG_MS + 1) if lag else on.IsrDue()
        proposals = [e for e in self._handle(node, event) if isinstance(e, effect.ProposeIsr)]
        if not proposals:
            return False
        (proposal,) = proposals
        code = self._alter(proposal) if arrives else 0
        if not (answered and arrives):
            self._handle(node, on.IsrUnanswered(attempt=proposal.attempt))
            return True
        state = self.partition
        self._handle(
            node,
            on.IsrAnswered(
                attempt=proposal.attempt,
                error_code=code,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=state.isr,
            ),
        )
        return True

    def _alter(self, proposal: effect.ProposeIsr) -> int:
        state = self.partition
        if proposal.leader_epoch != state.leader_epoch:
            return 74
        if proposal.partition_epoch != state.partition_epoch:
            return 95
        if not self.alive.issuperset(proposal.isr):
            return 107
        isr = tuple(map(NodeId, proposal.isr))
        after = after_isr_change(state, isr, min_isr=self.min_isr)
        self.partition = completed(after, self._candidates(), min_isr=self.min_isr)
        self.check_quorum()
        return 0

    def kill(self, node: int, *, checkpoint: int = 0) -> None:
        """SIGKILL, noticed at once; the log stays, the high watermark is the checkpointed one."""
        epochs = tuple(self.replicas[node].epochs.entries())
        self.replicas[node] = self._open(node, epochs, checkpoint)
        self.fence(node)

    def restart(self, node: int, *, checkpoint: int) -> None:
        """A restart so quick that nobody noticed: the ISR stays (before registrations fenced)."""
        epochs = tuple(self.replicas[node].epochs.entries())
        self.replicas[node] = self._open(node, epochs, checkpoint)
        self.learn(node)

    def fence(self, node: int) -> None:
        """The controller takes the node for dead; the node itself may know nothing of it."""
        self.alive.discard(NodeId(node))
        self._elect()

    def unfence(self, node: int) -> None:
        self.alive.add(NodeId(node))
        self._elect()

    def lose(self, node: int) -> bool:
        """The log of a node that lives is damaged, with a fetch under way: it is made anew."""
        after = without_failed_replicas(
            self.partition, frozenset({NodeId(node)}), self._candidates(), min_isr=self.min_isr
        )
        if after is None or after.leader not in self.alive:
            return False  # Nobody else has everything, so it stays as it is.
        self.partition = after
        self.check_quorum()
        self._renew(node)
        self.learn(node)
        return True

    def _renew(self, node: int) -> None:
        """A new replica without records; the last fetch of the one before is on its way."""
        replica = self.replicas[node]
        if replica.may_fetch(replica.leader_epoch):
            self.late[node] = (replica.leader, replica.leader_epoch, replica.log_end_offset)
        self.logs[node].clear()
        self.replicas[node] = self._open(node, ())

    def arrive(self, node: int) -> bool:
        """The fetch of the replica that was lost reaches the leader it was for."""
        leader_node, epoch, offset = self.late.pop(node)
        leader = self.replicas[leader_node]
        if leader_node not in self.alive or leader.refuse_follower(node, 100 + node, epoch):
            return False
        if leader.follower_fetched(leader.followers[node], offset, 0) is not None:
            self._committed(leader_node)
        return True

    def move(self, target: tuple[int, ...]) -> bool:
        """The controller is asked to reassign the partition."""
        nodes = tuple(map(NodeId, target))
        return self._decided(start(self.partition, nodes, self._candidates(), min_isr=self.min_isr))

    def cancel(self) -> bool:
        """The controller is asked to take a reassignment back."""
        return self._decided(cancel(self.partition, self._candidates(), min_isr=self.min_isr))

    def _elect(self) -> None:
        before, candidates = self.partition, self._candidates()
        after = elect(before, candidates, min_isr=self.min_isr)
        if is_moving(before):
            after = settled(before, after, candidates, min_isr=self.min_isr)
        self._decided(after)

    def _candidates(self) -> Candidates:
        return Candidates(alive=frozenset(self.alive))

    def _decided(self, after: PartitionState | None) -> bool:
        if after is None:
            return False
        self.partition = after
        self.check_quorum()
        return True

    # ---- effects and checks ----

    def _handle(self, node: int, event: on.Event) -> list[effect.Effect]:
        replica, log = self.replicas[node], self.logs[node]
        effects = replica.handle(event)
        for wanted in effects:
            if isinstance(wanted, effect.StartLeading):
                epochs_of(replica).assign(wanted.leader_epoch, wanted.start_offset)
            elif isinstance(wanted, effect.HighWatermarkMoved):
                self._committed(node)
            elif isinstance(wanted, effect.TruncateLog):
                del log[wanted.offset :]
                epochs_of(replica).truncate_from_end(wanted.offset)
                replica.handle(on.LogTruncated(log_start_offset=0, log_end_offset=len(log)))
        invariants.check(replica)
        return effects

    def _committed(self, node: int) -> None:
        high = self.replicas[node].high_watermark
        known = min(high, len(self.history))
        log = self.logs[node]
        if log[:known] != self.history[:known]:
            raise LostError(f"node {node} commits {log[:known]}, known are {self.history[:known]}")
        self.history += log[known:high]
        self.check_quorum()

    def check_quorum(self) -> None:
        """R3: replicas that may be elected have everything committed. Not checked when a log is cut, so
        that a story goes on to its end, where the record is lost.
        """
        for node in (*self.partition.isr, *self.partition.eligible_leaders):
            if self.logs[node][: len(self.history)] != self.history:
                raise LostError(f"node {node} may lead with {self.logs[node]}, not {self.history}")

    # ---- states as values ----

    def save(self) -> tuple[Any, ...]:
        """Everything, hashable. What was not used since `restore` is the same object."""
        return (
            self.partition,
            frozenset(self.alive),
            tuple(self.history),
            tuple(sorted(self.late.items())),
            *(tuple(self.logs[n]) if n in self.logs else self._saved_logs[n] for n in self.nodes),
            *(self._save(n) if n in self.replicas else self._saved[n] for n in self.nodes),
        )

    def _save(self, node: int) -> Saved:
        replica = self.replicas[node]
        isr = replica.isr
        return Saved(
            replica.log_end_offset,
            tuple(replica.epochs.entries()),
            replica.role,
            replica.leader,
            replica.leader_epoch,
            replica.high_watermark,
            replica.replicas,
            replica.epoch_start_offset,
            replica.resigned,
            (isr.committed, isr.partition_epoch, isr.outdated, isr._unanswered, isr.maximal),
            tuple(
                (f.node, f.node_epoch, f.log_end_offset, f.caught_up_ms, f.near)
                for f in replica.progress
            ),
        )

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Back to a saved state."""
        self.partition, alive, history, late, *nodes = saved
        self.alive, self.history, self.late = set(alive), list(history), dict(late)
        size = len(self.nodes)
        self._saved_logs = dict(zip(self.nodes, nodes[:size], strict=True))
        self._saved = dict(zip(self.nodes, nodes[size:], strict=True))
        self.logs.clear()
        self.replicas.clear()

    def _made_of_saved(self, node: int) -> Replica:
        saved = self._saved[node]
        replica = self._make(
            node=node,
            node_epoch=100 + node,
            lag_ms_max=LAG_MS,
            epochs=LeaderEpochCache(saved.epochs),
            log_start_offset=0,
            log_end_offset=saved.log_end_offset,
            high_watermark=saved.high_watermark,
        )
        replica.role, replica.leader = saved.role, saved.leader
        replica.leader_epoch = saved.leader_epoch
        replica.replicas, replica.min_isr = saved.replicas, self.min_isr
        replica.epoch_start_offset = saved.epoch_start_offset
        replica.resigned = saved.resigned
        isr = replica.isr
        isr.committed, isr.partition_epoch, isr.outdated, isr._unanswered, isr.maximal = saved.isr
        if replica.role is Role.LEADER:
            replica._set_replicas(replica.replicas)
            for follower, values in zip(replica.progress, saved.followers, strict=True):
                _, follower.node_epoch, follower.log_end_offset, *rest = values
                follower.caught_up_ms, follower.near = rest
            mark_maximal(replica.progress, isr.maximal)
            if not saved.resigned:
                replica.append_epoch = saved.leader_epoch
        return replica

    def with_partition(self, **fields: Any) -> None:
        """A partition as an earlier story left it; nodes learn of it by `learn`."""
        self.partition = replace(self.partition, **fields)
