"""Target assignments that are made while the group lives on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage
from highwater.model.group_config import bounds_of
from highwater.model.group_config_table import GroupConfigKey
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.durable import (
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, settle
from tests.unit.partition.groups.dialogue import NO_DELAY, key
from tests.unit.partition.groups.embedded_members import Embedded
from tests.unit.partition.groups.topics import FakeTopics, topic_id

STEPS = 5
"""Units of a step here: a group of two has some ten steps, but a member alone two or three."""
LONG_MS = 1_000
"""Long enough for every computation here."""


def slow_talk(units: int = STEPS, **config: object) -> Talk:
    return Talk(config=replace(NO_DELAY, assignment_step_units=units, **config))  # type: ignore[arg-type]


def targets_written(d: Talk) -> list[int]:
    """The epochs of all targets, in order."""
    return [r.value.epoch for r in d.log if isinstance(r, TargetEpochRecord) if r.value is not None]


def settled(d: Talk, consumers: list[Consumer]) -> None:
    for _ in range(4):
        d.wait(LONG_MS)
        settle(consumers, 1)


def test_only_targets_that_change_are_written() -> None:
    d = Talk()
    members = [Consumer(d, "a", "t"), Consumer(d, "b", "u")]
    for member in members:
        member.join()
    settle(members)
    d.log.clear()
    d.topics.set("u", 5)
    d.topics_change()
    settle(members)
    assert [r.member_id for r in d.log if isinstance(r, TargetRecord)] == ["b"]


def test_an_assignor_that_is_gone_gives_way_to_the_default() -> None:
    d = Talk(config=replace(NO_DELAY, consumer_assignors=("uniform",)))
    a = Consumer(d, "a", assignor="range")
    a.join()
    shard = GroupCoordinatorShard(
        d.config,
        lambda: "x",
        lambda state: ConsumerShard(
            state, d.topics, {"uniform": ASSIGNORS["uniform"]}, d.configs.of
        ),
    )
    for record in d.log:
        shard.replay(record)
    shard.activate(d.moment)
    d.shard = shard
    d.topics.set("t", 7)
    d.topics_change()
    a.beat()
    assert len(a.partitions["t"]) == 7
    assert isinstance(d.log[0], MemberRecord)
    described = shard.describe_consumer_group(key("g"))
    assert described is not None
    assert described.assignor == "range"


def test_a_small_group_has_its_target_at_once() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    assert a.partitions == {"t": (0, 1, 2, 3, 4, 5)}
    assert (d.group().epoch, d.group().target_epoch) == (1, 1)


def test_the_first_member_of_a_large_group_first_holds_nothing_in_an_epoch_of_its_own() -> None:
    d = slow_talk()
    a = Consumer(d, "a")
    response = a.join()
    assert (response.error, response.epoch, response.assignment) == (ErrorCode.NONE, 1, {})
    assert a.beat().epoch == 1
    d.wait(LONG_MS)
    assert a.beat().epoch == 2
    assert a.partitions == {"t": (0, 1, 2, 3, 4, 5)}
    assert targets_written(d) == [1, 2]


def test_heartbeats_are_answered_from_the_former_target_meanwhile() -> None:
    d = slow_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    settled(d, [a])
    epoch = a.epoch
    assert b.join().epoch == epoch
    assert b.held == {}
    for _ in range(3):
        d.wait(1)
        assert a.beat().epoch == epoch
        assert len(a.partitions["t"]) == 6
    assert d.group().state.value == "Assigning"
    settled(d, [a, b])
    assert (a.epoch, b.epoch) == (epoch + 1, epoch + 1)
    assert (len(a.partitions["t"]), len(b.partitions["t"])) == (3, 3)


def test_heartbeats_begin_no_other_computation() -> None:
    """Otherwise the members of a large group would keep it from its end."""
    d = slow_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    settled(d, [a])
    b.join()
    before = targets_written(d)
    turns = 0
    while targets_written(d) == before:
        a.beat()
        b.beat()
        d.wait(1)
        turns += 1
        assert turns < 100
    assert turns > 3, "the work was cut into pieces"


def test_who_joins_meanwhile_gets_its_share_from_the_next_computation() -> None:
    d = slow_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    d.wait(2)
    b.join()
    d.wait(LONG_MS)
    epochs = targets_written(d)
    assert epochs == sorted(epochs)
    assert epochs[-1] == d.group().epoch, "nobody had to ask for the second one"
    settled(d, [a, b])
    assert (len(a.partitions["t"]), len(b.partitions["t"])) == (3, 3)


@pytest.mark.parametrize("ms", range(25))
def test_who_leaves_meanwhile_gets_no_target(ms: int) -> None:
    d = slow_talk()
    a, b, c = (Consumer(d, name) for name in "abc")
    a.join()
    settled(d, [a])
    b.join()
    c.join()
    d.wait(ms)
    b.leave()
    assert "b" not in d.group().targets
    d.wait(LONG_MS)
    assert d.group().targets.keys() == {"a", "c"}
    settled(d, [a, c])
    assert (len(a.partitions["t"]), len(c.partitions["t"])) == (3, 3)


@pytest.mark.parametrize("ms", range(25))
def test_a_static_member_that_is_replaced_meanwhile_gets_the_target_of_its_place(ms: int) -> None:
    """That begins no epoch, so no other computation follows."""
    d = slow_talk()
    a = Consumer(d, "a")
    old, new = (Consumer(d, name, instance_id="i") for name in ("old", "new"))
    a.join()
    settled(d, [a])
    old.join()
    d.wait(ms)
    epoch = d.group().epoch
    assert old.leave(-2).error is ErrorCode.NONE
    assert new.join().error is ErrorCode.NONE
    assert d.group().epoch == epoch
    settled(d, [a, new])
    assert (len(a.partitions["t"]), len(new.partitions["t"])) == (3, 3)


@pytest.mark.parametrize("ms", [1, LONG_MS])
def test_a_group_that_is_deleted_meanwhile_leaves_nothing(ms: int) -> None:
    d = slow_talk()
    a, b = Consumer(d, "a", "t"), Consumer(d, "b", "u")
    a.join()
    d.wait(1)
    a.leave()
    assert d.shard.delete_group(key("g"), d.moment) is ErrorCode.NONE
    d.settle()
    d.wait(ms)
    assert not d.shard.durable.consumer_groups
    b.join()
    settled(d, [b])
    assert b.partitions == {"u": (0, 1)}
    assert d.group().targets.keys() == {"b"}


def test_topics_that_grow_meanwhile_are_assigned_then() -> None:
    d = slow_talk()
    a = Consumer(d, "a")
    a.join()
    d.wait(1)
    d.topics.set("t", 9)
    d.topics_change()
    settled(d, [a])
    assert a.partitions == {"t": tuple(range(9))}


def test_groups_take_turns() -> None:
    d = slow_talk()
    d.topics.set("large", 400)
    large, small = Consumer(d, "a", "large"), Consumer(d, "b", "t")
    large.join()
    d.send("b", 0, group="h", owned={}, **small.fields)
    steps = 0
    while d.group("h").target_epoch < d.group("h").epoch:
        d.wait(1)
        steps += 1
    assert steps < 30
    assert d.group().target_epoch < d.group().epoch


def test_members_of_the_classic_protocol_are_not_asked_to_join_again_in_vain() -> None:
    d = slow_talk()
    a, b = Consumer(d, "a"), Embedded(d)
    a.join()
    settled(d, [a])
    b.join()
    assert b.beat() is ErrorCode.NONE, "the target is still being made"
    d.wait(LONG_MS)
    settle([a])
    assert b.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(b.held["t"]) == 3


def test_a_group_that_becomes_classic_meanwhile_is_assigned_by_its_members() -> None:
    d = slow_talk()
    Consumer(d, "a", instance_id="i").join()
    assert Embedded(d, instance_id="i").send_join().error is ErrorCode.NONE
    assert d.state() == "PreparingRebalance"
    d.wait(LONG_MS)
    assert not d.shard.durable.consumer_groups


def test_a_target_that_does_not_fit_is_told_to_all_until_the_group_changes() -> None:
    d = slow_talk(operation_bytes_max=1_000)
    d.topics.set("t", 200)
    a = Consumer(d, "a")
    assert a.join().error is ErrorCode.NONE, "it is not known yet"
    d.wait(LONG_MS)
    before = len(d.log)
    for _ in range(3):
        assert a.beat().error is ErrorCode.UNKNOWN_SERVER_ERROR
        d.wait(LONG_MS)
    assert len(d.log) == before
    assert (d.group().target_epoch, d.group().epoch) == (1, 2)
    d.topics.set("t", 20)
    d.topics_change()
    settled(d, [a])
    assert len(a.partitions["t"]) == 20


def test_a_crash_at_any_moment_delays_the_target_only() -> None:
    d = slow_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    settled(d, [a])
    b.join()
    log, clock = list(d.log), d.now_ms
    d.wait(LONG_MS)
    whole = list(d.log)
    assert len(whole) > len(log) + 2
    for length in range(len(log), len(whole) + 1):
        d.log, d.now_ms = whole[:length], clock
        d.restart()
        one, two = Consumer(d, "a"), Consumer(d, "b")
        one.epoch, one.held, two.epoch = a.epoch, a.held, b.epoch
        settled(d, [one, two])
        assert (len(one.partitions["t"]), len(two.partitions["t"])) == (3, 3)


class Lines:
    """Counts lines of Python that run while it is entered."""

    def __init__(self) -> None:
        self.most = 0
        self._lines = 0
        self._before: object = None

    def _count(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., object]:
        self._lines += event == "line"
        return self._count

    def __enter__(self) -> None:
        self._lines = 0
        self._before = sys.gettrace()
        sys.settrace(self._count)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)  # type: ignore[arg-type]
        self.most = max(self.most, self._lines)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_no_turn_of_the_loop_does_more_than_a_step_for_a_large_group(assignor: str) -> None:
    """From the heartbeat that begins to the last record; lines of Python, since times tell nothing."""
    count, partitions = 1_000, 10_000
    d = Talk(topics=FakeTopics(t=partitions))
    joining = Lines()
    # The invariants of all members, after each of a thousand steps, take too long.
    d.settle = lambda: d.log.extend(d.shard.take_records())  # type: ignore[method-assign]
    for number in range(count):
        d.send(f"m{number}", 0, owned={}, rebalance_timeout_ms=60_000, assignor=assignor, **NAMES)
    d.wait(LONG_MS)
    assert d.group().target_epoch == d.group().epoch
    with joining:
        d.send("new", 0, owned={}, rebalance_timeout_ms=60_000, assignor=assignor, **NAMES)
    assert d.group().target_epoch < d.group().epoch
    timers, turns = Lines(), 0
    while d.group().target_epoch < d.group().epoch:
        d.now_ms += 1
        with timers:
            d.shard.expire(d.moment)
        turns += 1
    assert turns >= 3
    assert max(joining.most, timers.most) <= 30 * d.config.assignment_step_units
    held = [p for target in d.group().targets.values() for p in target.get(topic_id("t"), ())]
    assert sorted(held) == list(range(partitions))


NAMES = {"topic_names": frozenset({"t"})}


# ---- the interval between assignments (KIP-1263) ----


def waiting_talk(interval_ms: int = 1_000) -> Talk:
    """Targets wait for one another, as the broker's setting says."""
    bounds = bounds_of({"group.consumer.assignment.interval.ms": str(interval_ms)})
    return Talk(config=replace(NO_DELAY, consumer_bounds=bounds))


def test_members_that_come_soon_after_a_target_share_the_next_one() -> None:
    d = waiting_talk()
    a, b, c = (Consumer(d, name) for name in "abc")
    assert a.join().epoch == 1
    assert len(a.partitions["t"]) == 6, "the first target of a group does not wait"
    assert (b.join().epoch, c.join().epoch) == (1, 1)
    assert (b.held, c.held) == ({}, {})
    d.wait(999)
    for member in (a, b, c):
        assert member.beat().epoch == 1
    assert (d.group().epoch, d.group().state.value) == (3, "Assigning")
    d.wait(1)
    settled(d, [a, b, c])
    assert targets_written(d) == [1, 3], "none for the second epoch"
    assert [len(member.partitions["t"]) for member in (a, b, c)] == [2, 2, 2]


def test_a_change_long_after_the_last_target_does_not_wait() -> None:
    d = waiting_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    d.wait(1_000)
    assert b.join().epoch == 2
    assert targets_written(d) == [1, 2]


def test_a_group_has_the_interval_that_it_sets() -> None:
    d = waiting_talk()
    d.configs.follow(_with_interval("0"))
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    assert b.join().epoch == 2
    d.configs.follow(_with_interval("15000"))
    c = Consumer(d, "c")
    d.wait(5_000)
    assert c.join().epoch == 2
    d.configs.follow(_with_interval("5000"))
    assert c.beat().epoch == 3, "with the next heartbeat"


def _with_interval(value: str) -> ClusterImage:
    configs = {GroupConfigKey(*key("g")): {"consumer.assignment.interval.ms": value}}
    return ClusterImage(revision=1, cluster_id="c", group_configs=configs)


def test_the_next_coordinator_knows_when_the_last_target_was_made() -> None:
    d = waiting_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    d.restart()
    d.wait(999)
    assert b.join().epoch == 1
    d.wait(1)
    assert b.beat().epoch == 2


def test_a_clock_that_was_set_back_holds_nobody_up() -> None:
    d = waiting_talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    d.group().target_made_ms += 3_600_000
    assert b.join().epoch == 2


def test_members_of_the_classic_protocol_are_not_told_to_join_again_before_the_next_target() -> (
    None
):
    d = waiting_talk()
    a, old = Consumer(d, "a"), Embedded(d)
    a.join()
    d.wait(1_000)
    old.join()
    settle([a])
    assert old.beat() is ErrorCode.REBALANCE_IN_PROGRESS, "its partitions are free now"
    assert old.held == {"t": (3, 4, 5)}
    Consumer(d, "b").join()
    assert (d.group().epoch, d.group().target_epoch) == (3, 2)
    assert old.beat() is ErrorCode.NONE
    d.wait(1_000)
    assert old.beat() is ErrorCode.REBALANCE_IN_PROGRESS
