"""From calls to shards and to answers."""

import pytest

from highwater.hop.coordinator import BODY_BYTES_MAX
from highwater.kafka.error_codes import ErrorCode
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.calls import ShardCalls
from tests.unit.partition.coordinator.counter import (
    ADD,
    BUG,
    NAMES,
    NAMES_IN_STEPS,
    PEEK,
    SUM,
    WAIT,
    Counters,
)
from tests.unit.partition.coordinator.memory_log import MemoryLog
from tests.unit.partition.coordinator.waiting import until

ALL_KEYS = (ADD, PEEK, WAIT)

A, B = "a", "b"
"""Counters of the partitions 1 and 0 of two."""


async def both() -> Counters:
    assert [coordinator_place(DEFAULT_INSTANCE, name, 2) for name in (A, B)] == [1, 0]
    counters = await Counters(partitions=2).lead(0, 1)
    await counters.ask(ADD, f"{A} 3", partition=1)
    await counters.ask(ADD, f"{B} 4", partition=0)
    return counters


@pytest.mark.parametrize("api_key", ALL_KEYS)
async def test_a_partition_that_is_led_elsewhere(api_key):
    counters = await Counters(partitions=2).lead(0)
    assert counters.submit(api_key, "a 1", partition=1).answer == ErrorCode.NOT_COORDINATOR


async def test_while_a_shard_is_loaded():
    counters = Counters()
    counters.hosts.become_leader(0, 1)
    assert counters.submit(PEEK, "a").answer == "soon"
    for api_key in (ADD, WAIT, SUM):
        answer = counters.submit(api_key, "a 1").answer
        assert answer == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("api_key", [*ALL_KEYS, NAMES, NAMES_IN_STEPS])
async def test_bytes_that_do_not_decode_change_nothing(api_key):
    counters = await Counters().lead()
    sent = counters.submit(api_key, "too many words here")
    assert sent.answer == ErrorCode.INVALID_REQUEST
    sent = counters.submit(api_key, "", version=9)
    assert sent.answer == ErrorCode.UNSUPPORTED_VERSION
    assert counters.is_active()


async def test_calls_that_are_not_admitted():
    counters = await Counters().lead()
    sent = counters.submit(ADD, "a 1", instance=InstanceId("tenant"))
    assert sent.answer == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert counters.submit(ADD, " " * (BODY_BYTES_MAX + 1)).answer == ErrorCode.INVALID_REQUEST


async def test_calls_of_instances_that_are_not_there():
    """Of the default instance nobody asks whether it is there."""
    counters = await Counters().lead()
    there = {InstanceId("tenant")}
    parts = {"partition_of": lambda *_: 0, "admits_instance": there.__contains__}
    counters.calls = ShardCalls(counters.hosts, **parts, of_default_instance=False)
    assert counters.submit(PEEK, "a", instance=InstanceId("tenant")).answer == "0"
    sent = counters.submit(PEEK, "a", instance=InstanceId("gone"))
    assert sent.answer == ErrorCode.COORDINATOR_NOT_AVAILABLE
    told = []
    for name in ("gone", "tenant"):
        counters.calls.in_process(
            InstanceId(name), "a", "a test", lambda *_: "done", lambda *answer: told.append(answer)
        )
    assert told == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None), (0, "done")]
    counters.calls = ShardCalls(counters.hosts, **parts)
    assert counters.submit(PEEK, "a", instance=DEFAULT_INSTANCE).answer == "0"


async def test_while_the_log_refuses_appends_calls_that_write_are_refused():
    counters = await Counters().lead()
    await counters.ask(ADD, "a 3")
    counters.log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert counters.submit(ADD, "a 1").answer == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [counters.submit(key, "a").answer for key in (PEEK, SUM)] == ["3", "3"]


async def test_keys_of_several_shards():
    counters = await both()
    assert counters.submit(SUM, f"{A} {B}", partition=-1).answer == "7"
    assert counters.submit(SUM, f"{A} {B}", partition=1).answer == "3", "all keys are of that one"
    assert counters.submit(SUM, "", partition=-1).answer == "0"
    counters.hosts.resign(1)
    assert counters.submit(SUM, f"{B} {A}", partition=-1).answer == ErrorCode.NOT_COORDINATOR
    assert counters.submit(SUM, A, partition=1).answer == ErrorCode.NOT_COORDINATOR


async def test_an_answer_about_several_shards_waits_for_all_their_commits():
    counters = await both()
    counters.log.hold = True
    counters.submit(ADD, f"{A} 1", partition=1)
    counters.submit(ADD, f"{B} 1", partition=0)
    sent = counters.submit(SUM, f"{A} {B}", partition=-1)
    await until(lambda: len(counters.log.held) == 2)
    held = counters.log.held
    counters.log.held = held[:1]
    counters.log.commit()
    assert not sent.done
    counters.log.held = held[1:]
    counters.log.commit()
    assert sent.answer == "9"


async def test_an_answer_about_several_shards_fails_with_the_first():
    counters = await both()
    counters.log.hold = True
    counters.submit(ADD, f"{A} 1", partition=1)
    counters.submit(ADD, f"{B} 1", partition=0)
    sent = counters.submit(SUM, f"{A} {B}", partition=-1)
    counters.hosts.resign(1)
    assert sent.answer == ErrorCode.NOT_COORDINATOR
    await until(lambda: counters.log.held)
    counters.log.commit()
    assert len(sent.answers) == 1


async def test_errors_of_several_keys_are_in_the_words_of_their_api(monkeypatch):
    counters = await Counters(MemoryLog()).lead()
    host = counters.hosts.by_partition[0]
    monkeypatch.setattr(
        type(host), "refusal", lambda self, *, writes: ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert counters.submit(SUM, "a", partition=-1).answer == ErrorCode.NETWORK_EXCEPTION


async def test_every_shard_is_asked():
    counters = await both()
    assert counters.submit(NAMES, "", partition=-1).answer == f"{A} {B}"
    counters.hosts.resign(0)
    assert counters.submit(NAMES, "", partition=-1).answer == A


async def test_every_shard_is_asked_in_steps():
    counters = await both()
    sent = counters.submit(NAMES_IN_STEPS, "", partition=-1)
    counters.turns.pop()()
    assert not sent.done
    counters.turns.pop()()
    assert (sent.answer, counters.turns) == (f"{A} {B}", [])


async def test_a_client_that_goes_ends_the_steps():
    counters = await both()
    sent = counters.submit(NAMES_IN_STEPS, "", partition=-1)
    sent.call.cancelled = True
    counters.turns.pop()()
    assert (sent.done, counters.turns) == (False, [])


@pytest.mark.parametrize("api_key", [PEEK, SUM])
async def test_a_bug_costs_the_shard_a_reload_and_nobody_else(api_key):
    counters = await Counters(partitions=2).lead(0, 1)
    partition = coordinator_place(DEFAULT_INSTANCE, BUG, 2)
    sent = counters.submit(api_key, BUG, partition=partition)
    assert sent.answer == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [counters.is_active(n) for n in (partition, 1 - partition)] == [False, True]
    await until(lambda: counters.is_active(partition))


async def test_a_bug_that_touches_no_shard(monkeypatch):
    counters = await Counters().lead()

    def bug():
        raise ZeroDivisionError

    monkeypatch.setattr(counters.hosts, "shards", bug)
    for api_key in (NAMES, NAMES_IN_STEPS):
        assert counters.submit(api_key, "").answer == ErrorCode.UNKNOWN_SERVER_ERROR
    assert counters.is_active()


async def test_a_question_of_this_node_is_answered_after_its_commit():
    counters = await both()
    told: list = []

    def add(shard, now):
        return shard.add(A, 2, now)

    counters.calls.in_process(DEFAULT_INSTANCE, A, "test", add, lambda *answer: told.append(answer))
    assert told == [], "it is not committed"
    await until(lambda: bool(told))
    assert told == [(0, 5)]
    assert await counters.ask(PEEK, A, partition=1) == "5"


async def test_why_a_question_of_this_node_is_not_answered():
    counters = await Counters(partitions=2).lead(0)
    told: list = []

    def ask(key, decide=lambda _shard, _now: "decided"):
        counters.calls.in_process(
            DEFAULT_INSTANCE, key, "test", decide, lambda *answer: told.append(answer)
        )
        return told.pop()

    assert ask(A) == (ErrorCode.NOT_COORDINATOR, None)
    counters.hosts.become_leader(1, 1)
    assert ask(A) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    assert ask(B) == (0, "decided"), "nothing has to be committed"

    def bug(_shard, _now):
        raise ZeroDivisionError

    assert ask(B, bug) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert not counters.is_active(0)
    await until(lambda: counters.is_active(0))
