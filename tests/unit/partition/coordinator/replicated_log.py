"""One coordinator partition on several nodes, with simplified replication.

The controller's state is `leader`, `epoch` and `isr`. Nodes learn of a new leader when the test
says so, so an old one may long believe that it leads. As in real replication, a leader is from the
ISR, the high watermark is the smallest log end in the leader's ISR, followers copy batch by batch
after truncating what the leader does not have, and no node answers for an earlier epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import RecordBatchView, set_base_offset_and_epoch
from highwater.kafka.records.builder import end_transaction_marker
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.log_port import LogPlace
from tests.unit.partition.coordinator.memory_log import place_of


class NodeLog:
    """A `CoordinatorLog`: one node's replica of partition 0."""

    def __init__(self, node: int, cluster: ReplicatedLog) -> None:
        self.node = node
        self.cluster = cluster
        self.batches: list[bytes] = []
        self.committed = 0
        """The high watermark."""
        self.alive = True
        self.leading = False
        self.epoch = -1
        """The newest epoch that this node knows."""
        self.leader = -1
        self.epoch_start = 0
        self.isr: frozenset[int] = frozenset()
        self.ends: dict[int, int] = {}
        """The followers' log ends, as the leader knows them."""
        self.waiting: deque[tuple[int, int, Callable[[int, int], None]]] = deque()
        self.awaited: list[tuple[int, int, Callable[[], None]]] = []

    # ---- the port ----

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: bytes,
        on_committed: Callable[[int, int], None],
    ) -> None:
        refused = self.refusal(partition, leader_epoch)
        if refused:
            on_committed(refused, -1)
            return
        base = self.log_end_offset(partition)
        data = bytearray(batch)
        set_base_offset_and_epoch(data, 0, base, leader_epoch)
        self.batches.append(bytes(data))
        self.waiting.append((self.log_end_offset(partition), base, on_committed))
        self.advance()

    def append_marker(
        self,
        partition: int,
        leader_epoch: int,
        marker: TransactionMarker,
        on_committed: Callable[[int, int], None],
    ) -> None:
        batch = end_transaction_marker(
            commit=marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=0,
        )
        self.append(partition, leader_epoch, batch, on_committed)

    def refuse_producer(self, partition: int, producer_id: int, producer_epoch: int) -> int:
        return 0

    def refuse_marker(self, partition: int, marker: TransactionMarker) -> int:
        return 0

    def refusal(self, partition: int, leader_epoch: int) -> int:
        if not self.leading or leader_epoch != self.epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if len(self.isr) < self.cluster.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return 0

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        found = b""
        for data in self.batches:
            if view(data).last_offset < offset:
                continue
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return found

    def recheck(self, partition: int, offset: int) -> None:
        raise AssertionError("nothing is damaged here")

    def place(self, partition: int) -> LogPlace:
        return place_of(partition)

    def log_start_offset(self, partition: int) -> int:
        return 0

    def log_end_offset(self, partition: int) -> int:
        return view(self.batches[-1]).last_offset + 1 if self.batches else 0

    def high_watermark(self, partition: int) -> int:
        return self.committed

    def when_committed(self, partition: int, offset: int, tell: Callable[[], object]) -> None:
        self.awaited = [(self.epoch, offset, tell)]
        self._tell()

    def epoch_before(self, partition: int, offset: int) -> int:
        if not 0 < offset <= self.log_end_offset(partition):
            return -1
        return next(view(b).leader_epoch for b in self.batches if view(b).last_offset >= offset - 1)

    # ---- the replica ----

    @property
    def end(self) -> int:
        return self.log_end_offset(0)

    def advance(self) -> None:
        """Advances the leader's high watermark and calls its waiters."""
        if not self.leading or len(self.isr) < self.cluster.min_isr:
            return
        others = [self.ends.get(node, 0) for node in self.isr if node != self.node]
        self.committed = max(self.committed, min([self.end, *others]))
        while self.waiting and self.waiting[0][0] <= self.committed:
            _, base, on_committed = self.waiting.popleft()
            on_committed(0, base)
        self._tell()

    def _tell(self) -> None:
        awaited, self.awaited = self.awaited, []
        for epoch, offset, tell in awaited:
            if not self.leading or epoch != self.epoch:
                continue
            if self.committed >= offset:
                tell()
            else:
                self.awaited.append((epoch, offset, tell))

    def stop_leading(self) -> None:
        self.leading = False
        waiting, self.waiting = self.waiting, deque()
        for _, _, on_committed in waiting:
            on_committed(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        self._tell()


class ReplicatedLog:
    """The controller and the network between the nodes."""

    def __init__(self, nodes: int, min_isr: int = 1) -> None:
        self.min_isr = min_isr
        self.nodes = [NodeLog(node, self) for node in range(nodes)]
        self.leader = -1
        self.epoch = 0
        self.isr = frozenset(range(nodes))

    def may_lead(self, node: int) -> bool:
        return self.nodes[node].alive and node in self.isr

    def elect(self, node: int) -> int:
        """Elects a node of the ISR, tells only that node, and returns the epoch."""
        assert self.may_lead(node)
        self.epoch += 1
        self.leader = node
        replica = self.nodes[node]
        replica.epoch = self.epoch
        if replica.leading:
            replica.stop_leading()
        replica.leader = node
        replica.leading = True
        replica.isr = self.isr
        replica.ends = {}
        replica.epoch_start = replica.end
        replica.advance()
        return self.epoch

    def learn(self, node: int) -> bool:
        """A node learns of the present leader; True if it led until now."""
        replica = self.nodes[node]
        if replica.epoch == self.epoch:
            return False
        led, replica.epoch, replica.leader = replica.leading, self.epoch, self.leader
        if led:
            replica.stop_leading()
        return led

    def may_fetch(self, node: int) -> bool:
        follower = self.nodes[node]
        if not follower.alive or follower.leading or follower.leader < 0:
            return False
        leader = self.nodes[follower.leader]
        return leader.alive and leader.leading and leader.epoch == follower.epoch

    def fetch(self, node: int) -> None:
        """A follower truncates what its leader does not have, and copies one more batch."""
        follower = self.nodes[node]
        leader = self.nodes[follower.leader]
        common = 0
        for own, other in zip(follower.batches, leader.batches, strict=False):
            if own != other:
                break
            common += 1
        assert not follower.batches[common:] or (
            view(follower.batches[common]).base_offset >= follower.committed
        ), "nothing below its high watermark is ever cut off"
        del follower.batches[common:]
        follower.batches += leader.batches[common : common + 1]
        leader.ends[node] = follower.end
        if (
            leader.node == self.leader
            and leader.epoch == self.epoch
            and (follower.end >= max(leader.committed, leader.epoch_start))
        ):
            self.isr = leader.isr = leader.isr | {node}
        leader.advance()
        follower.committed = max(follower.committed, min(leader.committed, follower.end))

    def shrink(self, node: int) -> None:
        """The leader removes a follower from the ISR."""
        leader = self.nodes[self.leader]
        assert leader.leading
        assert node != leader.node
        self.isr = leader.isr = leader.isr - {node}
        leader.advance()

    def crash(self, node: int) -> None:
        """The process dies; its writes are in the page cache."""
        replica = self.nodes[node]
        replica.alive = replica.leading = False
        replica.waiting.clear()
        replica.awaited.clear()
        replica.committed //= 2  # Checkpointed some time ago.


def view(batch: bytes) -> RecordBatchView:
    return RecordBatchView(batch, 0, len(batch))
