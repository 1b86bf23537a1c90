"""Elections on request, with Kafka's error codes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.core.elect_leaders import (
    ElectionType,
    Wanted,
    elect_leaders,
    electing_leaders,
)
from highwater.controller.core.membership import ElectionRules
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId, TopicId
from tests.support.controller_images import image_with, topic_state
from tests.support.looked_at import Looks, longest_step

RULES = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: False)


def with_partitions(name: str, *fields: Mapping[str, Any]) -> TopicState:
    """A topic with one partition on nodes 1, 2 and 3 per mapping, with its fields changed."""
    topic = topic_state(name, [(1, 2, 3)] * len(fields))
    partitions = zip(topic.partitions, fields, strict=True)
    return replace(topic, partitions=tuple(replace(p, **f) for p, f in partitions))


TOPIC = with_partitions(
    "t",
    {},
    {"leader": NodeId(2)},
    {"leader": NodeId(2), "isr": (2, 3)},
    {"leader": NO_NODE, "isr": (), "last_known_leader": NO_NODE},
    {"leader": NO_NODE, "isr": (9,), "replicas": (9,)},
)
LED, MOVED, BEHIND, LOST, DEAD = range(5)


def elect(
    kind: ElectionType,
    wanted: Wanted | None,
    *,
    image: ClusterImage | None = None,
    instance: InstanceId = DEFAULT_INSTANCE,
    offline: Any = None,
    rules: ElectionRules = RULES,
) -> tuple[dict[int, int], dict[int, int]]:
    """Error codes by partition, and new leaders by partition."""
    before = image or image_with(3, topics=[TOPIC])
    decision = elect_leaders(before, instance, wanted, kind, rules, offline=offline or {})
    codes = {r.partition: r.refusal.code if r.refusal else 0 for r in decision.result}
    leaders = {}
    for topic_id, states in decision.delta.partitions.items() if decision.delta else ():
        known = before.topics[topic_id].partitions
        for now in states:
            was = known[now.partition]
            if was != now:
                assert now.leader_epoch == was.leader_epoch + 1
                assert now.partition_epoch == was.partition_epoch + 1
                leaders[now.partition] = int(now.leader)
    return codes, leaders


def test_no_leader_is_preferred_whose_disk_is_full_but_any_is_better_than_none() -> None:
    wanted = [(TOPIC.topic_id, (MOVED, LOST))]
    rules = replace(RULES, avoided=lambda *_: frozenset({NodeId(1)}))
    codes, leaders = elect(ElectionType.PREFERRED, wanted, rules=rules)
    assert (codes[MOVED], leaders) == (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, {})
    lone = with_partitions("t", {}, {}, {}, {"leader": NO_NODE, "isr": (1, 2)})
    image = image_with(3, topics=[lone])
    _, leaders = elect(ElectionType.UNCLEAN, [(lone.topic_id, (LOST,))], image=image, rules=rules)
    assert leaders == {LOST: 2}
    image = image_with(3, topics=[lone], fenced=[2])
    _, leaders = elect(ElectionType.UNCLEAN, [(lone.topic_id, (LOST,))], image=image, rules=rules)
    assert leaders == {LOST: 1}


def test_preferred() -> None:
    codes, leaders = elect(ElectionType.PREFERRED, [(TOPIC.topic_id, (LED, MOVED, BEHIND, LOST))])
    assert codes == {
        LED: ErrorCode.ELECTION_NOT_NEEDED,
        MOVED: 0,
        BEHIND: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        LOST: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert leaders == {MOVED: 1}


def test_unclean() -> None:
    codes, leaders = elect(ElectionType.UNCLEAN, [(TOPIC.topic_id, (LED, BEHIND, LOST, DEAD))])
    assert codes == {
        LED: ErrorCode.ELECTION_NOT_NEEDED,
        BEHIND: ErrorCode.ELECTION_NOT_NEEDED,
        LOST: 0,
        DEAD: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    assert leaders == {LOST: 1}


def told(topic: TopicState, *, unclean: bool, offline: Any = None) -> list[tuple[int, int, int]]:
    """(partition, leader, leader epoch) of a topic's unclean elections."""
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    image = image_with(3, topics=[topic])
    numbers = range(len(topic.partitions))
    wanted = [(topic.topic_id, numbers)]
    decision = elect_leaders(image, DEFAULT_INSTANCE, wanted, kind, RULES, offline=offline or {})
    assert all(election.topic == topic.name for election in decision.unclean)
    return [(e.partition, int(e.leader), int(e.leader_epoch)) for e in decision.unclean]


def test_only_elections_that_may_lose_records_are_reported() -> None:
    epoch = TOPIC.partitions[LOST].leader_epoch + 1
    assert told(TOPIC, unclean=True) == [(LOST, 1, epoch)]
    assert told(TOPIC, unclean=False) == []
    by_right = with_partitions(
        "u",
        {"leader": NO_NODE, "isr": (3,)},
        {"leader": NO_NODE, "isr": (9,), "eligible_leaders": (2,)},
        {"leader": NO_NODE, "isr": (9,)},
    )
    assert [partition for partition, *_ in told(by_right, unclean=True)] == [2]


def test_an_unclean_election_prefers_an_eligible_leader() -> None:
    topic = with_partitions("t", {"leader": NO_NODE, "isr": (3,)})
    image = image_with(3, topics=[topic])
    assert elect(ElectionType.UNCLEAN, [(topic.topic_id, (0,))], image=image) == ({0: 0}, {0: 3})


def test_all_partitions_of_the_instance() -> None:
    codes, leaders = elect(ElectionType.PREFERRED, None)
    assert LED not in codes, "those that need no election are left out"
    assert leaders == {MOVED: 1}
    assert set(codes) == {MOVED, BEHIND, LOST, DEAD}
    assert elect(ElectionType.PREFERRED, None, instance=InstanceId("other")) == ({}, {})


def test_unknown_topics_and_partitions() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(ElectionType.PREFERRED, [(TopicId(bytes(16)), (0,))])[0] == {0: unknown}
    assert elect(ElectionType.PREFERRED, [(TOPIC.topic_id, (99,))])[0] == {99: unknown}
    wanted = [(TOPIC.topic_id, (MOVED,))]
    others = elect(ElectionType.PREFERRED, wanted, instance=InstanceId("other"))
    assert others == ({MOVED: unknown}, {}), "instances do not see one another"


def test_a_failed_log_does_not_lead() -> None:
    offline = {NodeId(1): {TOPIC.topic_id: frozenset({MOVED, LOST})}}
    wanted = [(TOPIC.topic_id, (MOVED,))]
    codes, leaders = elect(ElectionType.PREFERRED, wanted, offline=offline)
    assert (codes, leaders) == ({MOVED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}, {})
    assert elect(ElectionType.UNCLEAN, [(TOPIC.topic_id, (LOST,))], offline=offline)[1] == {LOST: 2}


def test_a_partition_requested_twice() -> None:
    codes, leaders = elect(ElectionType.PREFERRED, [(TOPIC.topic_id, (MOVED, MOVED))])
    assert codes == {MOVED: ErrorCode.ELECTION_NOT_NEEDED}, "the second finds what the first did"
    assert leaders == {MOVED: 1}


@pytest.mark.parametrize("kind", ElectionType)
def test_a_step_looks_at_one_partition(kind: ElectionType) -> None:
    looks = Looks()
    image = looks.at(image_with(3, topics=[topic_state(name, [(1, 2)] * 100) for name in "ab"]))
    steps = electing_leaders(image, DEFAULT_INSTANCE, None, kind, RULES, offline={})
    decision, longest = longest_step(steps, lambda: looks.count)
    assert decision.result == []
    assert looks.count >= 200
    assert longest <= 2
