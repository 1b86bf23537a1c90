"""Snapshots, reloads and limits around a shard; calls are in test_runtime."""

import asyncio

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.coordinator.snapshot import decode_snapshot
from highwater.partition.groups.kind import SNAPSHOT_MAGIC
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.groups.node import Node, is_active
from tests.unit.partition.groups.test_runtime import commit, committed, fetch_all, heartbeat

SMALL = HostSettings(snapshot_bytes=2_000)


async def test_snapshot_when_the_log_has_grown():
    node = await Node(settings=SMALL).lead()
    sent = 60
    for n in range(sent):
        await node.ask(commit(n, partition=n % 7), 8)
    await until(lambda: node.snapshots.saves)
    snapshot = decode_snapshot(node.snapshots.files[0], SNAPSHOT_MAGIC)
    assert snapshot.record_count == 7
    assert 7 <= snapshot.offset <= sent
    await node.ask(commit(sent), 8)
    heir = await Node(node.log, node.snapshots).lead(epoch=2)
    assert committed(await heir.ask(fetch_all(), 7))["t", 0] == sent


async def test_snapshot_holds_nothing_that_is_not_committed():
    node = await Node(MemoryLog(hold=True), settings=SMALL).lead()
    for n in range(60):
        node.submit(commit(n, partition=n), 8)
        if n % 10 == 9:
            await until(lambda: node.log.held)
            if n < 50:
                node.log.commit()
            await asyncio.sleep(0)
    await until(lambda: node.snapshots.saves)
    before = decode_snapshot(node.snapshots.files[0], SNAPSHOT_MAGIC)
    assert before.record_count == before.offset <= 50
    node.log.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await asyncio.sleep(0.02)
    assert decode_snapshot(node.snapshots.files[0], SNAPSHOT_MAGIC).offset <= 50


async def test_snapshot_that_cannot_be_written_costs_nothing():
    snapshots = MemorySnapshots()
    snapshots.fail = True
    node = await Node(snapshots=snapshots, settings=SMALL).lead()
    for n in range(60):
        await node.ask(commit(n), 8)
    assert snapshots.files == {}
    assert is_active(node.coordinator, 0)
    await node.coordinator.stop()


async def test_long_replay_makes_a_snapshot_due():
    node = await Node().lead()
    for n in range(40):
        await node.ask(commit(n), 8)
    heir = await Node(node.log, settings=SMALL).lead(epoch=2)
    await until(lambda: heir.snapshots.saves)
    assert decode_snapshot(heir.snapshots.files[0], SNAPSHOT_MAGIC).offset == 40


async def test_a_clean_stop_without_new_records_writes_no_snapshot():
    node = await Node().lead()
    await node.coordinator.stop()
    assert node.snapshots.saves == 0


async def test_stop_while_loading():
    snapshots = MemorySnapshots()
    snapshots.open.clear()
    node = Node(snapshots=snapshots)
    node.coordinator.become_leader(0, 2)
    await asyncio.sleep(0.01)
    await node.coordinator.stop(timeout_s=1)
    snapshots.open.set()
    await asyncio.sleep(0.05)
    assert not is_active(node.coordinator, 0)


async def test_loader_of_an_old_epoch_never_installs_what_it_read():
    """It was interrupted, and ends after the next epoch's host has begun to serve."""
    node = await Node().lead(epoch=1)
    await node.ask(commit(1), 8)
    node.coordinator.resign(0)
    node.snapshots.open.clear()
    node.coordinator.become_leader(0, 2)
    await asyncio.sleep(0.01)
    node.coordinator.resign(0)
    node.coordinator.become_leader(0, 4)
    node.coordinator.become_leader(0, 3)
    await asyncio.sleep(0.01)
    assert node.submit(commit(2), 8).code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.snapshots.open.set()
    await until(lambda: is_active(node.coordinator, 0))
    await asyncio.sleep(0.02)
    await node.ask(commit(2), 8)
    assert node.log.appends[-1] == (0, 4, 1)
    assert node.coordinator.stats().shards_active == 1


@pytest.mark.parametrize(
    "refusal", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
)
async def test_a_partition_lost_during_loading_is_not_coordinated(refusal):
    node = Node()
    node.log.refuse_with = refusal
    node.coordinator.become_leader(0, 1)
    await until(lambda: node.submit(commit(1), 8).code == ErrorCode.NOT_COORDINATOR)
    assert node.submit(heartbeat("m", 1), 4).code == ErrorCode.NOT_COORDINATOR
    await asyncio.sleep(0.15)
    assert not is_active(node.coordinator, 0)
    node.log.refuse_with = 0  # The disk has recovered in the same epoch.
    await until(lambda: is_active(node.coordinator, 0))


async def test_an_unreadable_log_is_read_again(monkeypatch):
    node = await Node().lead()
    await node.ask(commit(1), 8)
    log = node.log
    tries = []

    def read(partition, offset, max_bytes):
        tries.append(offset)
        if len(tries) < 2:
            raise OSError(5, "Input/output error")
        return MemoryLog.read(log, partition, offset, max_bytes)

    monkeypatch.setattr(log, "read", read)
    heir = await Node(log).lead(epoch=2)
    assert len(tries) == 2
    assert committed(await heir.ask(fetch_all(), 7)) == {("t", 0): 1}


async def test_while_the_log_has_failed_clients_look_elsewhere(monkeypatch):
    node = await Node().lead()
    await node.ask(commit(1), 8)

    def read(partition, offset, max_bytes):
        node.log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(node.log, "read", read)
    heir = Node(node.log)
    heir.coordinator.become_leader(0, 2)
    await until(lambda: heir.submit(commit(1), 8).code == ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("times", [3])
async def test_reload_pauses_grow_while_appends_fail_and_shrink_after(times):
    node = await Node(MemoryLog()).lead()
    loop = asyncio.get_running_loop()
    pauses = []
    for _ in range(times):
        node.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
        sent = node.submit(commit(1), 8)
        await until(lambda sent=sent: sent.done)
        started = loop.time()
        await until(lambda: is_active(node.coordinator, 0))
        pauses.append(loop.time() - started)
    assert pauses[0] < pauses[1] < pauses[2]
    node.log.fail_with = 0
    await node.ask(commit(2), 8)
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 2}
