"""Nodes that replicate to each other, with real replicas, sessions and codec on both sides."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.replication.leader import record_source
from tests.support.log_batches import make_batch, read_all
from tests.unit.partition.data_plane.node import stored
from tests.unit.partition.replication.channel import until
from tests.unit.partition.replication.members import Partition


@pytest.fixture(params=[False, True], ids=["bytes", "files"])
async def pair(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    # Even small records are sent as places.
    monkeypatch.setattr(record_source, "PLACE_BYTES_MIN", 0)
    made = Partition(tmp_path, files=request.param)
    yield made
    await made.close()


def idempotent(sequence: int) -> bytearray:
    return make_batch(producer_id=7, producer_epoch=0, base_sequence=sequence)


async def test_a_record_is_acknowledged_when_the_follower_has_it(pair: Partition) -> None:
    pair.elect(1)
    sink = pair.append(idempotent(0), idempotent(1))
    assert sink.results == [], "the ISR has two members"
    await until(lambda: sink.codes == {0: 0, 1: 0})
    assert sink.offsets == {0: 0, 1: 1}
    await pair.converged()
    assert pair[2].replica.high_watermark == 2
    assert stored(pair[2].replica) == stored(pair[1].replica) != b""


async def test_many_groups_while_the_follower_copies(pair: Partition) -> None:
    pair.elect(1)
    sinks = []
    for number in range(200):
        sinks.append(pair.append(make_batch(value=b"v" * number, timestamps=(1,) * 3)))
        if number % 10 == 0:
            await asyncio.sleep(0)
    await until(lambda: all(sink.results for sink in sinks))
    assert {code for sink in sinks for code in sink.codes.values()} == {0}
    await pair.converged()
    assert pair[2].replica.high_watermark == 600
    traffic = pair[2].traffic
    assert traffic.bytes_in[1] == len(stored(pair[1].replica))
    assert traffic.file_bytes_in[1] == (traffic.bytes_in[1] if pair.files else 0)


async def test_nothing_is_acknowledged_while_followers_cannot_reach_the_leader(
    pair: Partition,
) -> None:
    pair.elect(1)
    await pair.converged()
    pair.isolate(1)
    sink = pair.append(make_batch())
    await asyncio.sleep(0.1)
    assert sink.results == []
    pair.heal(1)
    await until(lambda: sink.results)
    await pair.converged()


async def test_a_replica_outside_the_isr_joins_when_it_has_caught_up(pair: Partition) -> None:
    pair.elect(1, isr=(1,))
    sink = pair.append(*[make_batch() for _ in range(5)])
    assert sink.codes == dict.fromkeys(range(5), 0), "the leader is its only member"
    await until(lambda: pair.isr == (1, 2))
    await pair.converged()


async def test_the_old_leaders_uncommitted_tail_is_truncated(pair: Partition) -> None:
    pair.elect(1)
    kept = pair.append(idempotent(0))
    await until(lambda: kept.results)
    await pair.converged()
    pair.isolate(1)
    lost = pair.append(idempotent(1), idempotent(2), make_batch(value=b"lost"))
    pair.elect(2, isr=(2,), tell=(2,))
    new = pair.append(make_batch(value=b"new"), idempotent(1))
    assert new.offsets == {0: 1, 1: 2}
    assert pair[1].log.log_end_offset == 4
    pair.heal(1)
    pair.publish()
    assert lost.codes == dict.fromkeys(range(3), ErrorCode.REQUEST_TIMED_OUT)
    await pair.converged()
    assert pair[1].log.epochs.cache.entries() == [(1, 0), (2, 1)]
    assert [(b.base_offset, b.leader_epoch) for b in read_all(pair[1].log)] == [
        (0, 1),
        (1, 2),
        (2, 2),
    ]
    await until(lambda: pair.isr == (2, 1))
    again = pair.append(idempotent(2))
    await until(lambda: again.results)
    await pair.converged()


async def test_fast_failovers_are_undone_epoch_by_epoch(pair: Partition) -> None:
    """KIP-279: each led without the other and does not know the other's last epochs."""
    pair.elect(1)
    first = pair.append(make_batch())
    await until(lambda: first.results)
    await pair.converged()
    pair.isolate(1)
    pair.isolate(2)
    for leader in (1, 2, 1, 2, 1):
        pair.elect(leader, isr=(leader,), tell=(leader,))
        pair.append(make_batch(value=b"%d" % pair.epoch), acks=1)
    assert [member.log.log_end_offset for member in pair.members.values()] == [4, 3]
    pair.heal(1)
    pair.heal(2)
    pair.elect(2, isr=(2,))
    await pair.converged()
    assert pair[1].log.epochs.cache.entries()[:2] == [(1, 0), (3, 1)]
    assert len(read_all(pair[1].log)) == 3


async def test_an_epoch_without_records_is_no_divergence_for_ever(pair: Partition) -> None:
    for leader in (1, 2, 1, 2):
        pair.elect(leader)
    sink = pair.append(make_batch())
    await until(lambda: sink.results)
    await pair.converged()


async def test_a_follower_begins_where_the_leaders_log_does(tmp_path: Path) -> None:
    pair = Partition(tmp_path)
    try:
        pair.elect(1, isr=(1,), tell=(1,))
        pair.append(make_batch(timestamps=(1, 2, 3)), make_batch(timestamps=(1, 2, 3)))
        leader = pair[1]
        leader.log.deletion.advance_start(4)
        leader.replica.core.log_start_moved(4)
        pair.publish()
        sink = pair.append(make_batch(), acks=-1)
        await until(lambda: pair.isr == (1, 2) and sink.results)
        await until(lambda: pair[2].replica.high_watermark == 7)
        assert (pair[2].log.log_start_offset, pair[2].log.log_end_offset) == (4, 7)
        assert stored(leader.replica).endswith(stored(pair[2].replica))
    finally:
        await pair.close()


async def test_followers_flush_before_they_acknowledge(tmp_path: Path) -> None:
    pair = Partition(tmp_path, flush_messages=1)
    try:
        pair.elect(1)
        sink = pair.append(make_batch(), make_batch())
        await until(lambda: sink.results)
        assert pair[2].log.durability.recovery_point == 2
    finally:
        await pair.close()


async def test_three_replicas_and_a_leader_that_moves(tmp_path: Path) -> None:
    three = Partition(tmp_path, nodes=3, segment_bytes=2000)
    try:
        sinks = []
        for number in range(30):
            if number % 6 == 0:
                three.elect(number // 6 % 3 + 1)
            sinks.append(three.append(make_batch(value=b"%d" % number * 20), acks=1))
            await asyncio.sleep(0.002)
        last = three.append(make_batch())
        await until(lambda: last.results)
        await three.converged()
        assert last.codes == {0: 0}
        assert all(sink.codes == {0: 0} for sink in sinks)
    finally:
        await three.close()
