"""One shard's life, with a shard that has nothing to do with groups."""

import asyncio

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.coordinator.snapshot import decode_snapshot
from tests.unit.partition.coordinator.counter import (
    ADD,
    BUG,
    COUNTERS,
    LIFE_MS,
    MAGIC,
    PEEK,
    WAIT,
    Counters,
)
from tests.unit.partition.coordinator.memory_log import ManualClock, MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until


async def test_answers_wait_for_the_commit():
    counters = await Counters(MemoryLog(hold=True)).lead()
    sent = counters.submit(ADD, "a 3")
    reader = counters.submit(WAIT, "a 3")
    await until(lambda: counters.log.held)
    assert not (sent.done or reader.done), "both tell of what is not committed yet"
    counters.log.commit()
    assert (sent.answer, reader.answer) == ("3", "3")


async def test_the_next_epoch_loads_what_the_former_one_has_decided():
    counters = await Counters().lead()
    await counters.ask(ADD, "a 3")
    await counters.ask(ADD, "a 4")
    await counters.ask(ADD, "b 1")
    heir = await Counters(counters.log).lead(epoch=2)
    assert [await heir.ask(PEEK, name) for name in "abc"] == ["7", "1", "0"]
    assert [epoch for _, epoch, _ in counters.log.appends] == [1, 1, 1]


async def test_a_parked_call_is_answered_when_the_records_of_another_are_committed():
    counters = await Counters(MemoryLog(hold=True)).lead()
    waiting = counters.submit(WAIT, "a 2")
    counters.submit(ADD, "a 1")
    counters.submit(ADD, "a 1")
    await until(lambda: counters.log.held)
    assert not waiting.done
    counters.log.commit()
    assert waiting.answer == "a 2"


async def test_a_parked_call_times_out_with_its_request():
    counters = await Counters().lead()
    waiting = counters.submit(WAIT, "a 2", deadline_ms=20)
    await until(lambda: waiting.done)
    assert waiting.answer == ErrorCode.REQUEST_TIMED_OUT
    assert await counters.ask(ADD, "a 2") == "2"


async def test_a_cancelled_call_is_forgotten():
    counters = await Counters().lead()
    waiting = counters.submit(WAIT, "a 2")
    counters.hosts.cancel(waiting.call)
    await counters.ask(ADD, "a 2")
    assert not waiting.done
    (shard,) = counters.hosts.shards()
    assert shard.parked_tokens() == []


async def test_timers_of_the_shard_write_records():
    clock = ManualClock()
    counters = await Counters(clock=clock).lead()
    await counters.ask(ADD, "a 3")
    clock.ms += LIFE_MS
    await counters.ask(ADD, "b 1")
    counters.hosts.by_partition[0]._wake()
    await until(lambda: len(counters.log.appends) == 3)
    heir = await Counters(counters.log).lead(epoch=2)
    assert [await heir.ask(PEEK, name) for name in "ab"] == ["0", "1"]


@pytest.mark.parametrize("in_call", [False, True])
async def test_a_failed_append_loads_the_shard_again(in_call):
    counters = await Counters(MemoryLog(in_call=in_call)).lead()
    await counters.ask(ADD, "a 3")
    waiting = counters.submit(WAIT, "b 1")
    counters.log.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    sent = counters.submit(ADD, "a 4")
    await until(lambda: sent.done and waiting.done)
    assert {sent.answer, waiting.answer} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert counters.submit(ADD, "a 5").answer == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    counters.log.fail_with = 0
    await until(counters.is_active)
    assert await counters.ask(ADD, "a 1") == "4", "what was not committed is not there"


async def test_a_bug_in_a_call_loads_the_shard_again():
    counters = await Counters().lead()
    await counters.ask(ADD, "a 3")
    waiting = counters.submit(WAIT, "b 1")
    assert counters.submit(ADD, f"{BUG} 1").answer == ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.answer == ErrorCode.UNKNOWN_SERVER_ERROR
    await until(counters.is_active)
    assert [await counters.ask(PEEK, name) for name in ("a", "b")] == ["3", "0"]
    assert len(counters.log.appends) == 1, "nothing of the call that failed is written"


async def test_a_bug_in_a_timer_loads_the_shard_again(monkeypatch):
    clock = ManualClock()
    counters = await Counters(clock=clock).lead()
    await counters.ask(ADD, "a 3")
    (shard,) = counters.hosts.shards()

    def bug(now):
        raise ZeroDivisionError

    monkeypatch.setattr(shard, "expire", bug)
    counters.hosts.by_partition[0]._wake()
    assert not counters.is_active()
    await until(counters.is_active)
    assert await counters.ask(PEEK, "a") == "3"


async def test_a_resigned_host_answers_all_and_never_comes_back():
    counters = await Counters(MemoryLog(hold=True)).lead()
    calls = [counters.submit(WAIT, "b 1"), counters.submit(ADD, "a 3")]
    await until(lambda: counters.log.held)
    counters.hosts.resign(0)
    assert [sent.answer for sent in calls] == [ErrorCode.NOT_COORDINATOR] * 2
    counters.log.commit()
    await asyncio.sleep(0.01)
    assert counters.submit(PEEK, "a").answer == ErrorCode.NOT_COORDINATOR


async def test_snapshots_have_the_magic_and_the_records_of_the_kind():
    counters = await Counters(settings=HostSettings(snapshot_bytes=500)).lead()
    for _ in range(20):
        await counters.ask(ADD, "a 1")
    await until(lambda: counters.snapshots.saves)
    snapshot = decode_snapshot(counters.snapshots.files[0], MAGIC)
    ((_, (key, value)),) = snapshot.records()
    assert COUNTERS.codec.decode(key, value) == ("a", snapshot.offset)


async def test_a_clean_stop_leaves_a_snapshot_and_nothing_to_replay():
    snapshots = MemorySnapshots()
    counters = await Counters(snapshots=snapshots).lead()
    await counters.ask(ADD, "a 3")
    await counters.hosts.stop()
    assert snapshots.saves == 1
    reads = len(counters.log.reads)
    heir = await Counters(counters.log, snapshots).lead(epoch=2)
    assert await heir.ask(PEEK, "a") == "3"
    assert len(counters.log.reads) == reads


async def test_calls_are_refused_while_too_much_is_uncommitted():
    settings = HostSettings(uncommitted_bytes_max=200)
    counters = await Counters(MemoryLog(hold=True), settings=settings).lead()
    sent = [counters.submit(ADD, "a 1") for _ in range(20)]
    assert sent[-1].answer == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await until(lambda: counters.log.held)
    counters.log.commit()
    assert sent[0].answer == "1"
