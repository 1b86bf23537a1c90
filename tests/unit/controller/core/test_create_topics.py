"""CreateTopics by Kafka's rules."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.core.create_topics import (
    PARTITIONS_PER_TOPIC_MAX,
    CreationResult,
    CreationRules,
    TopicDefaults,
    TopicWish,
    create_topics,
)
from highwater.controller.core.outcome import Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    INTERNAL_REPLICAS_MAX,
    SYSTEM_INSTANCE,
    InstanceId,
    NodeId,
    TopicId,
)
from highwater.model.instances import InstanceState
from tests.support.config_rules import PlainConfigRules
from tests.support.controller_images import image_with, topic_state, with_instances

ids = itertools.count(1)

RULES = CreationRules(
    defaults=TopicDefaults(
        partitions=4, replication_factor=2, internal_partitions=7, internal_replication_factor=3
    ),
    configs=PlainConfigRules(),
    random_below=lambda _: 0,
    new_topic_id=lambda: TopicId(next(ids).to_bytes(16, "big")),
)


def create(image: ClusterImage, *wishes: TopicWish) -> list[CreationResult]:
    decision = create_topics(image, DEFAULT_INSTANCE, wishes, RULES)
    made = [result for result in decision.result if isinstance(result, TopicState)]
    assert (decision.delta.topics if decision.delta else ()) == tuple(made)
    return decision.result


def refusal(image: ClusterImage, **fields: Any) -> Refusal:
    (result,) = create(image, TopicWish(**{"name": "t", **fields}))
    assert isinstance(result, Refusal), result
    assert result.message
    return result


def refused(image: ClusterImage, **fields: Any) -> ErrorCode:
    return refusal(image, **fields).code


def created(image: ClusterImage, **fields: Any) -> TopicState:
    (result,) = create(image, TopicWish(**{"name": "t", **fields}))
    assert isinstance(result, TopicState), result
    return result


def test_a_new_topic() -> None:
    topic = created(image_with(3), partitions=3, replication_factor=3, configs={"a.b": "1"})
    assert [p.partition for p in topic.partitions] == [0, 1, 2]
    assert [p.leader for p in topic.partitions] == [1, 2, 3]
    for p in topic.partitions:
        assert (p.leader_epoch, p.partition_epoch) == (0, 0)
        assert p.leader == p.replicas[0]
        assert set(p.isr) == set(p.replicas) == {1, 2, 3}
    assert topic.configs == {"a.b": "1"}


def test_defaults() -> None:
    topic = created(image_with(3))
    assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (4, 2)
    internal = created(image_with(3), name="__consumer_offsets", internal=True)
    assert (len(internal.partitions), len(internal.partitions[0].replicas)) == (7, 3)
    assert internal.internal


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b", "a\n"])
def test_illegal_names(name: str) -> None:
    assert refused(image_with(1), name=name) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_longest_name() -> None:
    assert created(image_with(2), name="x" * 249)


def test_existing_and_colliding_names() -> None:
    image = image_with(2, topics=[topic_state("a.b", [(1,)])])
    assert refused(image, name="a.b") == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused(image, name="a_b") == ErrorCode.INVALID_TOPIC_EXCEPTION
    one, other = create(image, TopicWish(name="x.y"), TopicWish(name="x_y"))
    assert isinstance(one, TopicState)
    assert isinstance(other, Refusal), "within one request too"
    image = with_instances(image, InstanceState(instance=InstanceId("other")))
    decision = create_topics(image, InstanceId("other"), [TopicWish(name="a_b")], RULES)
    assert isinstance(decision.result[0], TopicState), "instances do not see one another"


def test_internal_names_are_refused() -> None:
    assert refused(image_with(1), name="__consumer_offsets") == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("count", [0, -2, PARTITIONS_PER_TOPIC_MAX + 1])
def test_partition_counts(count: int) -> None:
    assert refused(image_with(1), partitions=count) == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_replication_factors(factor: int) -> None:
    code = refused(image_with(3), replication_factor=factor)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_factors_are_refused_in_kafkas_words() -> None:
    assert refusal(image_with(2), replication_factor=3).message == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
        "reached because only 2 broker(s) are registered."
    )
    assert refusal(image_with(2), replication_factor=0).message == (
        "Replication factor must be larger than 0, or -1 to use the default value."
    )
    assert refusal(image_with(1), replication_factor=-1).code == (
        ErrorCode.INVALID_REPLICATION_FACTOR
    ), "the default of 2 is not made smaller"


def test_no_node_at_all() -> None:
    assert refused(image_with(0)) == ErrorCode.INVALID_REPLICATION_FACTOR
    fenced = refusal(image_with(2, fenced=[1, 2]))
    assert fenced.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert fenced.message.endswith("All brokers are currently fenced.")


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_internal_topics_use_the_available_nodes(nodes: int) -> None:
    open_factor = replace(RULES, defaults=TopicDefaults())
    wish = TopicWish(name="__consumer_offsets", internal=True)
    (made,) = create_topics(image_with(nodes), DEFAULT_INSTANCE, [wish], open_factor).result
    assert isinstance(made, TopicState)
    assert len(made.partitions[0].replicas) == min(INTERNAL_REPLICAS_MAX, nodes)


def test_an_explicit_factor_of_internal_topics_waits_for_its_nodes() -> None:
    fields = {"name": "__consumer_offsets", "internal": True, "replication_factor": 3}
    assert refused(image_with(2), **fields) == ErrorCode.INVALID_REPLICATION_FACTOR
    starting = created(image_with(3, fenced=[2, 3]), **fields)
    assert {len(p.replicas) for p in starting.partitions} == {3}
    assert {p.isr for p in starting.partitions} == {(1,)}, "they come in when they have it all"


@pytest.mark.parametrize(
    ("instance", "name", "allowed"),
    [
        (DEFAULT_INSTANCE, "__transaction_state", True),
        (SYSTEM_INSTANCE, "__instance_offsets", True),
        (SYSTEM_INSTANCE, "__instance_transactions", True),
        (SYSTEM_INSTANCE, "__consumer_offsets", False),
        (DEFAULT_INSTANCE, "__instance_offsets", False),
        (InstanceId("team"), "__consumer_offsets", False),
        (InstanceId("team"), "__instance_offsets", False),
        (DEFAULT_INSTANCE, "orders", False),
    ],
)
def test_internal_topics_are_those_of_coordinators(
    instance: InstanceId, name: str, *, allowed: bool
) -> None:
    wish = TopicWish(name=name, internal=True)
    (made,) = create_topics(image_with(3), instance, [wish], RULES).result
    assert isinstance(made, TopicState if allowed else Refusal), made


@pytest.mark.parametrize("name", ["orders", "__instance_offsets"])
def test_the_cluster_has_an_instance_of_its_own(name: str) -> None:
    wish = TopicWish(name=name)
    (made,) = create_topics(image_with(3), SYSTEM_INSTANCE, [wish], RULES).result
    assert isinstance(made, Refusal)
    assert made.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_fenced_node_is_used_only_when_needed() -> None:
    image = image_with(3, fenced=[2])
    two = created(image, partitions=6, replication_factor=2)
    assert all(2 not in p.replicas for p in two.partitions)
    three = created(image, partitions=6, replication_factor=3)
    for p in three.partitions:
        assert set(p.replicas) == {1, 2, 3}
        assert set(p.isr) == {1, 3}
        assert p.leader in p.isr


def test_manual_assignments() -> None:
    image = image_with(3)
    topic = created(image, assignments=((1, (3, 1)), (0, (2, 3))))
    assert [p.replicas for p in topic.partitions] == [(2, 3), (3, 1)]
    assert [p.leader for p in topic.partitions] == [2, 3]


@pytest.mark.parametrize(
    "assignments",
    [
        ((1, (1,)),),
        ((0, (1,)), (0, (2,))),
        ((0, (1,)), (2, (2,))),
        ((0, ()),),
        ((0, (1, 1)),),
        ((0, (1, 2)), (1, (1,))),
        ((0, (9,)),),
    ],
)
def test_bad_assignments(assignments: tuple[tuple[int, tuple[int, ...]], ...]) -> None:
    code = refused(image_with(2), assignments=assignments)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_manual_assignment_excludes_counts() -> None:
    assert refused(image_with(1), assignments=((0, (1,)),), partitions=1) == (
        ErrorCode.INVALID_REQUEST
    )


def test_configs_are_checked() -> None:
    assert refused(image_with(2), configs={"NOT A NAME": "x"}) == ErrorCode.INVALID_CONFIG


def test_duplicate_names_in_one_request() -> None:
    results = create(image_with(2), TopicWish(name="t"), TopicWish(name="u"), TopicWish(name="t"))
    codes = [r.code if isinstance(r, Refusal) else 0 for r in results]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


def test_a_request_has_a_limit() -> None:
    wishes = [TopicWish(name=f"t{n}", partitions=10_000) for n in range(3)]
    results = create_topics(image_with(1), DEFAULT_INSTANCE, wishes, RULES).result
    assert {r.code for r in results if isinstance(r, Refusal)} == {ErrorCode.POLICY_VIOLATION}
    assert len(results) == 3


def over_limit(*wishes: TopicWish) -> bool:
    results = create_topics(image_with(1), DEFAULT_INSTANCE, wishes, RULES).result
    assert len(results) == len(wishes)
    codes = {r.code for r in results if isinstance(r, Refusal)}
    return ErrorCode.POLICY_VIOLATION in codes


def topics(count: int, **fields: Any) -> list[TopicWish]:
    return [
        TopicWish(**{"name": f"t{n}", "partitions": 1, "replication_factor": 1, **fields})
        for n in range(count)
    ]


def test_many_topics_in_one_request() -> None:
    """MirrorMaker 2 asks for all that are missing at once."""
    made = create(image_with(1), *topics(3_000))
    assert len({topic.name for topic in made if isinstance(topic, TopicState)}) == 3_000


def test_topics_partitions_and_configs_share_kafkas_limit() -> None:
    assert not over_limit(*topics(5_000))
    assert over_limit(*topics(5_001))
    assert not over_limit(*topics(2_500, configs={"a.b": "1", "c.d": "2"}))
    assert over_limit(*topics(2_500, configs={"a.b": "1", "c.d": "2", "e.f": "3"}))
    assert over_limit(*topics(2_500, partitions=4))
    by_hand = tuple((n, (1,)) for n in range(4))
    assert over_limit(*topics(2_500, partitions=-1, replication_factor=-1, assignments=by_hand))


def test_a_few_topics_may_have_more_partitions_than_kafkas_limit() -> None:
    assert not over_limit(*topics(2, partitions=PARTITIONS_PER_TOPIC_MAX))
    assert not over_limit(*topics(1_000, partitions=20))
    assert over_limit(*topics(1_001, partitions=19))


def leaving(image: ClusterImage, node: int) -> ClusterImage:
    """The image with a node that is being decommissioned."""
    state = replace(image.nodes[NodeId(node)], decommissioning=True)
    return replace(image, nodes={**image.nodes, NodeId(node): state})


def test_nothing_new_is_placed_on_nodes_that_are_taken_out_of_use() -> None:
    image = leaving(image_with(4), 2)
    topic = created(image, partitions=8, replication_factor=3)
    assert {node for p in topic.partitions for node in p.replicas} == {1, 3, 4}
    told = refusal(image, replication_factor=4)
    assert told.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 3 broker(s) are registered. 1 more are being decommissioned." in told.message
    by_hand = {"assignments": ((0, (1, 2)),)}
    assert refused(image, **by_hand) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    # Not even while other nodes are fenced.
    away = leaving(image_with(3, fenced=[1]), 2)
    topic = created(away, replication_factor=2)
    assert {node for p in topic.partitions for node in p.replicas} == {1, 3}


def test_an_instances_limits_do_not_concern_internal_topics() -> None:
    """Those of the default instance are its groups and transactions."""
    limits = InstanceState(instance=DEFAULT_INSTANCE, partitions_max=1, message_bytes_max=10)
    image = with_instances(image_with(3), limits)
    internal = TopicWish(
        name="__consumer_offsets", internal=True, configs={"max.message.bytes": "20"}
    )
    one, another, made = create(
        image, TopicWish(name="one", partitions=1), TopicWish(name="two", partitions=1), internal
    )
    assert isinstance(one, TopicState)
    assert isinstance(another, Refusal), "counts what the same request creates"
    assert another.code == ErrorCode.POLICY_VIOLATION
    assert isinstance(made, TopicState)
