"""A follower that does what the answers say gets the leader's log, for any order of events."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import read_header
from highwater.partition.core.divergence import UNKNOWN_EPOCH
from highwater.partition.replication.rows import Answered, Asked
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.leader_side import FOLLOWER, Leader, Peer

PARTITIONS = 3
REPLICAS = (NODE, FOLLOWER)
PATIENCE = 60
"""Requests until the logs must be equal."""


@dataclass
class Copy:
    """The follower's copy of a partition."""

    start: int = 0
    end: int = 0
    last_epoch: int = -1
    high_watermark: int = 0
    followed: bool = True
    due: bool = True
    records: bytes = b""

    def take(self, row: Answered) -> None:
        data = bytes(row.records)
        while data:
            header = read_header(data)
            size = header.batch_length + 12
            assert header.base_offset == self.end, "batches without a gap"
            self.end += header.last_offset_delta + 1
            self.last_epoch = header.leader_epoch
            self.records += data[:size]
            data = data[size:]
        self.high_watermark = max(self.high_watermark, min(row.high_watermark, self.end))

    def restart_at(self, offset: int) -> None:
        self.start = self.end = self.high_watermark = offset
        self.last_epoch, self.records = -1, b""


class World:
    """A leader, and a follower with one stream to it."""

    def __init__(self, directory: Path) -> None:
        self.leader = Leader(directory)
        self.epoch = EPOCH
        self.replicas = [self.leader.add_led(n, replicas=REPLICAS) for n in range(PARTITIONS)]
        self.copies = [Copy() for _ in range(PARTITIONS)]
        self.forgotten: list[int] = []
        self.peer = self.leader.session()
        self.unread: list[Answered] | None = []
        """The answer on its way; None while the leader has not answered."""

    def append(self, partition: int, size: int) -> None:
        batch = make_batch(value=b"v" * size)
        self.leader.append(batch, partition=partition, epoch=self.epoch)

    def turn(self) -> None:
        self._arrived(self.peer.turn())

    def wait(self, ms: int) -> None:
        self._arrived(self.peer.wait(ms))

    def _arrived(self, rows: list[Answered] | None) -> None:
        if rows is not None:
            assert self.unread is None, "one answer to each request"
            self.unread = rows

    def carry_out(self, max_bytes: int) -> None:
        """The follower applies the answer and asks for what it lacks."""
        if self.unread is None:
            return
        rows, self.unread = self.unread, None
        for row in rows:
            self._carry_out(row)
        forgotten, self.forgotten = self.forgotten, []
        asked = []
        for partition, copy in enumerate(self.copies):
            if copy.followed and copy.due:
                copy.due = False
                asked.append(Asked(TOPIC, partition, self.epoch, copy.end, copy.last_epoch))
        self.peer.request(*asked, forgotten=[(TOPIC, n) for n in forgotten], max_bytes=max_bytes)

    def _carry_out(self, row: Answered) -> None:
        copy = self.copies[row.partition]
        assert (row.diverging_epoch, row.diverging_end_offset) == UNKNOWN_EPOCH
        if not copy.followed or copy.due or row.leader_epoch != self.epoch:
            return
        assert row.fetch_offset == copy.end, "only asked-for places are answered"
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            assert copy.end < row.log_start_offset
            copy.restart_at(row.log_start_offset)
            copy.due = True
            return
        assert row.error_code == 0
        copy.take(row)
        copy.due = len(row.records) > 0

    def forget(self, partition: int) -> None:
        copy = self.copies[partition]
        if copy.followed:
            copy.followed = False
            self.forgotten.append(partition)

    def follow(self, partition: int) -> None:
        copy = self.copies[partition]
        if not copy.followed:
            copy.followed = copy.due = True

    def delete(self, partition: int) -> None:
        replica = self.replicas[partition]
        replica.log.deletion.advance_start(replica.high_watermark)
        replica.core.log_start_moved(replica.log.log_start_offset)

    def elect(self) -> None:
        self.epoch += 1
        for replica, copy in zip(self.replicas, self.copies, strict=True):
            image_says(replica, leader=NODE, epoch=self.epoch, replicas=REPLICAS)
            copy.due = True

    def reconnect(self) -> None:
        self.peer.session.close()
        self.peer = Peer(self.leader, FOLLOWER)
        self.unread = []
        self.forgotten = []
        for copy in self.copies:
            copy.due = True

    def check(self) -> None:
        for replica, copy in zip(self.replicas, self.copies, strict=True):
            assert copy.end <= replica.log.log_end_offset
            assert copy.high_watermark <= replica.high_watermark
            assert copy.records in stored(replica)
            assert len(replica.listeners) <= 1
        assert not self.leader.bugs
        assert not self.leader.log_failures
        assert not self.peer.broken


SMALL = st.integers(0, PARTITIONS - 1)
STEPS = st.one_of(
    st.tuples(st.just("append"), SMALL, st.integers(1, 300)),
    st.tuples(st.just("turn")),
    st.tuples(st.just("wait"), st.sampled_from([1, 19, 20, 500])),
    st.tuples(st.just("carry_out"), st.sampled_from([1, 400, 1 << 20])),
    st.tuples(st.just("forget"), SMALL),
    st.tuples(st.just("follow"), SMALL),
    st.tuples(st.just("delete"), SMALL),
    st.tuples(st.just("elect")),
    st.tuples(st.just("reconnect")),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=50))
def test_a_follower_gets_everything_in_the_end(steps):
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        for name, *arguments in steps:
            getattr(world, name)(*arguments)
            world.check()
        for partition in range(PARTITIONS):
            world.follow(partition)
        for _ in range(PATIENCE):
            world.carry_out(1 << 20)
            world.turn()
            world.wait(500)
        world.check()
        for replica, copy in zip(world.replicas, world.copies, strict=True):
            assert copy.end == replica.log.log_end_offset
            assert copy.high_watermark == replica.high_watermark == copy.end
        world.peer.session.close()
        assert all(replica.listeners == () for replica in world.replicas)
