"""A leader node with real logs and one follower's session; the test ends its loop turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from highwater.model.ids import TopicId
from highwater.partition.core.replica_effects import ProposeIsr
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.codec import FollowerRequest
from highwater.partition.replication.leader.leader_session import LeaderSession
from highwater.partition.replication.leader.segment_bytes import read_slice
from highwater.partition.replication.rows import Answered, Asked
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.partition.storage.log.log_slice import LogSlice
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node, Timer
from tests.unit.partition.data_plane.roles import NODE, image_says

FOLLOWER, OTHER = 2, 3
NODE_EPOCH = 70


class Port:
    """Keeps proposals; follows nothing."""

    def __init__(self) -> None:
        self.proposals: list[ProposeIsr] = []

    def follow(self, _replica: PartitionReplica, _leader: int, _epoch: int) -> None:
        """Not used here."""

    def stop_following(self, _replica: PartitionReplica) -> None:
        """Not used here."""

    def propose_isr(self, _replica: PartitionReplica, proposal: ProposeIsr) -> None:
        self.proposals.append(proposal)


class Leader(Node):
    """Leads partitions with followers 2 and 3; `session` is follower 2's by default."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = Port()
        self.throttle = Throttle(Side.LEADER)
        self.traffic = ReplicaTraffic()

    def limit_catch_up(self, rate: int | None, *partitions: int) -> None:
        """Throttles followers of these partitions that are not in sync."""
        self.throttle._rate = rate
        self.throttle._bucket.set_rate(self.clock.now_ms, rate)
        self.throttle.partitions = frozenset((TOPIC, n) for n in partitions)

    def add_led(
        self,
        partition: int = 0,
        *,
        replicas: tuple[int, ...] = (NODE, FOLLOWER, OTHER),
        isr: tuple[int, ...] | None = None,
        epoch: int = EPOCH,
        **spec: Any,
    ) -> PartitionReplica:
        replica = self.add(partition, lead=False, **spec)
        replica.port = self.port
        image_says(
            replica,
            leader=NODE,
            epoch=epoch,
            replicas=replicas,
            isr=isr,
            now_ms=self.clock.now_ms,
        )
        return replica

    def session(self, node: int = FOLLOWER) -> Peer:
        return Peer(self, node)


class PeerTimer(Timer):
    """Fires when `Peer.wait` passes its time."""

    def __init__(self, now_ms: int, seconds: float, callback: Callable[[], None]) -> None:
        super().__init__(seconds, callback)
        self.at_ms = now_ms + round(seconds * 1000)


class Peer:
    """The session of one follower node, and that node's requests."""

    def __init__(self, leader: Leader, node: int) -> None:
        self.leader = leader
        self.node = node
        self.node_epoch = NODE_EPOCH
        self.soon: deque[Callable[[], None]] = deque()
        self.timers: list[PeerTimer] = []
        self.answers: list[tuple[int, list[Answered]]] = []
        self.ended: list[tuple[int, list[Answered]]] = []
        """Answers that were sent because the next request came."""
        self.read: Callable[[LogSlice], Any] = read_slice
        self.broken: list[Exception] = []
        self.request_id = 0
        self.session = LeaderSession(
            leader.plane.replicas,
            now_ms=leader.clock.monotonic_ms,
            call_later=self._call_later,
            call_soon=self.soon.append,
            read_bytes=self._read,
            unreadable=leader.plane.unreadable,
            answer=self._answered,
            broken=self.broken.append,
            throttle=leader.throttle,
            traffic=leader.traffic,
        )

    def _read(self, found: LogSlice) -> Any:
        return self.read(found)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> PeerTimer:
        self.timers.append(PeerTimer(self.leader.clock.now_ms, seconds, callback))
        return self.timers[-1]

    def _answered(self, request_id: int, rows: list[Answered]) -> None:
        self.answers.append((request_id, rows))

    def request(
        self,
        *asked: Asked,
        forgotten: Iterable[tuple[TopicId, int]] = (),
        max_wait_ms: int = 500,
        max_bytes: int = 8 << 20,
        partition_max_bytes: int = 1 << 20,
        accepts_references: bool = False,
        bytes_only: Iterable[tuple[TopicId, int]] = (),
    ) -> None:
        """Sends the next request within the turn; the one before may still be unanswered."""
        self.request_id += 1
        self.session.receive(
            FollowerRequest(
                request_id=self.request_id,
                node_id=self.node,
                node_epoch=self.node_epoch,
                asked=list(asked),
                forgotten=list(forgotten),
                max_wait_ms=max_wait_ms,
                max_bytes=max_bytes,
                partition_max_bytes=partition_max_bytes,
                accepts_references=accepts_references,
                bytes_only=tuple(bytes_only),
            )
        )

        if self.answers:
            self.ended.append(self.answers.pop(0))

    def turn(self) -> list[Answered] | None:
        """Ends the loop turn; returns the rows of the answer sent in it, None if there was none."""
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        return self.taken()

    def taken(self) -> list[Answered] | None:
        if not self.answers:
            return None
        ((request_id, rows),) = self.answers
        assert request_id == self.request_id
        self.answers.clear()
        return rows

    def ask(self, *asked: Asked, **spec: Any) -> list[Answered] | None:
        """A request, and the answer at the end of its turn."""
        self.request(*asked, **spec)
        return self.turn()

    def one(self, *asked: Asked, **spec: Any) -> Answered:
        """A request whose answer has one row."""
        rows = self.ask(*asked, **spec)
        assert rows is not None
        (row,) = rows
        return row

    def wait(self, ms: int) -> list[Answered] | None:
        """Time passes and timers fire; returns the answer sent at the end, if any."""
        clock = self.leader.clock
        until = clock.now_ms + ms
        while True:
            due = [t for t in self.timers if not t.cancelled and t.at_ms <= until]
            if not due:
                break
            timer = min(due, key=lambda t: t.at_ms)
            self.timers.remove(timer)
            clock.now_ms = max(clock.now_ms, timer.at_ms)
            timer.callback()
            while self.soon:
                self.soon.popleft()()
        clock.now_ms = until
        return self.taken()

    @property
    def pending_timers(self) -> int:
        return sum(not timer.cancelled for timer in self.timers)


def place(offset: int, partition: int = 0, *, epoch: int = EPOCH, last: int | None = None) -> Asked:
    """A follower's place; the last record is of this epoch, if there is one."""
    if last is None:
        last = epoch if offset else -1
    return Asked(TOPIC, partition, epoch, offset, last)


def partitions(rows: Iterable[Answered]) -> list[int]:
    return [row.partition for row in rows]


def told(row: Answered) -> tuple[int, int, int, int]:
    """(error code, high watermark, log start offset, log end offset)."""
    return row.error_code, row.high_watermark, row.log_start_offset, row.log_end_offset


def out_of_sync(
    leader: Leader, partition: int = 0, count: int = 100, size: int = 900
) -> PartitionReplica:
    """A replica with `count` batches whose followers are not in sync."""
    replica = leader.add_led(partition, isr=(NODE,))
    leader.append(*[make_batch(value=b"v" * size) for _ in range(count)], partition=partition)
    return replica


def resign(replica: PartitionReplica) -> None:
    """The next image has another leader."""
    image_says(replica, leader=OTHER, epoch=EPOCH + 1, replicas=(NODE, FOLLOWER, OTHER))
