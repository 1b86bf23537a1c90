"""Three nodes replicate one partition while connections break, nodes restart and leaders change.

Every batch acknowledged with acks=all is in every log at its offset (R1), logs are equal in the end
(R2, R16), and no high watermark decreases within an epoch (R4). `members.py` checks the invariants
of each replica after each of its events.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from highwater.partition.core.replica_events import LagChecked
from highwater.partition.replication.leader import record_source
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink
from tests.unit.partition.data_plane.node import stored
from tests.unit.partition.replication.channel import until
from tests.unit.partition.replication.members import Partition

LAG_MS_MAX = 60
STEPS = 120


class World:
    """A partition, its faults, and what its clients have seen."""

    def __init__(self, partition: Partition, seed: int) -> None:
        self.partition = partition
        self.rng = random.Random(seed)
        self.sent: list[tuple[bytes, Sink]] = []
        self.high_watermarks: dict[tuple[int, int], int] = {}

    async def run(self) -> None:
        steps = [self.append] * 8 + [self.cut, self.isolate, self.heal, self.heal]
        steps += [self.elect, self.restart, self.wait, self.wait, self.wait]
        self.partition.elect(1)
        for _ in range(STEPS):
            self.rng.choice(steps)()
            await asyncio.sleep(self.rng.choice((0, 0, 0.001, 0.005)))
            self.tick()

    def tick(self) -> None:
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        for node, member in self.partition.members.items():
            replica = member.replica
            replica.handle(LagChecked(now_ms=now_ms))
            place = node, replica.leader_epoch
            if replica.leading:
                assert replica.high_watermark >= self.high_watermarks.get(place, 0)
                self.high_watermarks[place] = replica.high_watermark

    def append(self) -> None:
        value = b"%d" % len(self.sent)
        epochs = [m.replica.leader_epoch for m in self.partition.members.values()]
        leaders = [n for n, m in self.partition.members.items() if m.replica.leading]
        if leaders:
            # Sometimes the leader does not know yet that it has been replaced.
            node = self.rng.choice(leaders)
            self.sent.append((value, self.partition.append(make_batch(value=value), node=node)))
        assert max(epochs) == self.partition.epoch

    def cut(self) -> None:
        self.partition[self.rng.choice((1, 2, 3))].cut()

    def isolate(self) -> None:
        if len(self.partition.reachable) == 3:
            self.partition.isolate(self.rng.choice((1, 2, 3)))

    def heal(self) -> None:
        for node in (1, 2, 3):
            self.partition.heal(node)
        self.partition.publish()

    def elect(self) -> None:
        """A member of the ISR is elected; the former leader may learn of it late."""
        leader = self.rng.choice(self.partition.isr)
        tell = [n for n in (1, 2, 3) if n == leader or self.rng.random() < 0.7]
        self.partition.elect(leader, self.partition.isr, tell=tell)

    def restart(self) -> None:
        node = self.rng.choice((1, 2, 3))
        self.partition[node].restart()
        if node == self.partition.leader:
            self.partition.elect(self.rng.choice(self.partition.isr), self.partition.isr)
        else:
            self.partition.publish([node])

    def wait(self) -> None:
        """Does nothing."""

    async def settle(self) -> None:
        self.heal()
        self.partition.elect(self.rng.choice(self.partition.isr), self.partition.isr)
        last = self.partition.append(make_batch(value=b"last"))
        await until(lambda: last.results and len(self.partition.isr) == 3)
        await self.partition.converged()
        assert last.codes == {0: 0}

    def check(self) -> None:
        acknowledged = 0
        log = self.partition[1].log
        data = stored(self.partition[1].replica)
        values = dict(_values(data))
        assert len(values) == log.log_end_offset
        for value, sink in self.sent:
            if sink.codes == {0: 0}:
                acknowledged += 1
                assert values[sink.offsets[0]] == make_batch(value=value)[61:], value
        assert acknowledged >= 10, "else nothing was tried"
        assert all(m.checks > STEPS and m.bugs == [] for m in self.partition.members.values())


def _values(data: bytes) -> list[tuple[int, bytes]]:
    """(base offset, records) of each batch."""
    found = []
    position = 0
    while position < len(data):
        length = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        base_offset = int.from_bytes(data[position : position + 8], "big")
        found.append((base_offset, data[position + 61 : position + length]))
        position += length
    return found


@pytest.mark.parametrize("files", [False, True], ids=["bytes", "files"])
@pytest.mark.parametrize("seed", range(6))
async def test_nothing_acknowledged_is_lost(
    tmp_path: Path, seed: int, files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `files`, followers read records from the leaders' files, while logs are truncated."""
    monkeypatch.setattr(record_source, "PLACE_BYTES_MIN", 0)
    partition = Partition(tmp_path, nodes=3, lag_ms_max=LAG_MS_MAX, files=files)
    try:
        world = World(partition, seed)
        await world.run()
        await world.settle()
        world.check()
    finally:
        await partition.close()
