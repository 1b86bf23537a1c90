"""Roles of a coordinator's partitions, and what is asked of all its shards."""

import io
import json

from highwater.kafka.error_codes import ErrorCode
from highwater.runtime.logging import make_logger
from tests.unit.partition.coordinator.counter import ADD, BUG, PEEK, Counters
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until


async def test_a_host_for_each_partition_and_epoch():
    counters = await Counters(partitions=2).lead(0, 1)
    await counters.ask(ADD, "a 1", partition=1)
    first = counters.hosts.by_partition[1]
    counters.hosts.become_leader(1, 1)
    assert counters.hosts.by_partition[1] is first
    await counters.lead(1, epoch=3)
    counters.hosts.become_leader(1, 2)
    assert counters.hosts.by_partition[1].leader_epoch == 3
    assert await counters.ask(PEEK, "a", partition=1) == "1"
    counters.hosts.resign(1)
    counters.hosts.resign(1)
    assert list(counters.hosts.by_partition) == [0]


async def test_loading_and_active_shards():
    snapshots = MemorySnapshots()
    counters = await Counters(snapshots=snapshots).lead()
    assert not counters.hosts.loading
    snapshots.open.clear()
    counters.hosts.become_leader(1, 1)
    assert counters.hosts.loading
    assert len(list(counters.hosts.shards())) == 1
    snapshots.open.set()
    await until(lambda: not counters.hosts.loading)
    assert len(list(counters.hosts.shards())) == 2


async def test_every_shard_decides_and_a_bug_reloads_only_its_own():
    counters = await Counters(partitions=2).lead(0, 1)
    await counters.ask(ADD, "odd 1", partition=1)

    def decide(shard, now):
        shard.add(BUG if shard.counts.values else "even", 1, now)

    counters.hosts.for_each("parity", decide)
    assert [counters.is_active(partition) for partition in (0, 1)] == [True, False]
    await until(lambda: counters.is_active(1))
    assert await counters.ask(PEEK, "even") == "1"
    assert await counters.ask(PEEK, "odd", partition=1) == "1"


async def test_shards_that_may_not_write_are_left_out():
    counters = await Counters().lead()
    counters.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    asked = []
    counters.hosts.for_each("something", lambda shard, now: asked.append(shard))
    assert asked == []


async def test_a_stop_answers_calls_whose_records_never_commit():
    counters = await Counters(MemoryLog(hold=True)).lead()
    sent = counters.submit(ADD, "a 1")
    await counters.hosts.stop(timeout_s=0.05)
    assert sent.answer == ErrorCode.NOT_COORDINATOR


async def test_log_events_have_the_name_of_the_kind():
    out = io.StringIO()
    counters = await Counters(logger=make_logger(stream=out)).lead()
    counters.submit(ADD, f"{BUG} 1")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["counter_shard_loaded", "counter_shard_crashed"]
    assert {line["partition"] for line in lines} == {0}


async def test_one_shard_decides_while_it_serves():
    counters = await Counters().lead()
    (shard,) = counters.hosts.shards()

    def grow(served, now):
        served.add("a", 1, now)

    assert counters.hosts.is_served(0, shard)
    assert counters.hosts.decide(0, shard, "growth", grow)
    await until(lambda: counters.log.appends)
    counters.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert not counters.hosts.decide(0, shard, "growth", grow)
    counters.log.refuse_with = 0
    await counters.lead(epoch=2)
    assert not counters.hosts.is_served(0, shard)
    assert not counters.hosts.decide(0, shard, "growth", grow)
    assert not counters.hosts.is_served(1, shard)
    assert await counters.ask(PEEK, "a") == "1"


async def test_a_bug_in_a_decision_is_no_success():
    counters = await Counters().lead()
    (shard,) = counters.hosts.shards()
    assert not counters.hosts.decide(0, shard, "bug", lambda served, now: served.add(BUG, 1, now))
    await until(counters.is_active)
