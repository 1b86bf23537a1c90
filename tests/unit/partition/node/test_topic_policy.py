from dataclasses import replace

import pytest

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import InstanceId, NodeId
from highwater.model.instances import InstanceState
from highwater.model.topic_config import effective
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.node.topic_policy import TopicPolicies, append_policy
from tests.support.controller_images import topic_state

NODE = NodeId(1)
SHOP = InstanceId("shop")
IMAGE = ClusterImage(revision=1, cluster_id="c")


def topic(replicas: int = 1, **configs: str) -> TopicState:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    return replace(topic_state("t", [tuple(range(1, replicas + 1))]), configs=given)


def policy_of(state: TopicState, brokers: dict[str, str]) -> AppendPolicy:
    return append_policy(state, effective(state.configs, brokers))


def test_a_topic_that_sets_nothing_has_the_plain_policy() -> None:
    assert policy_of(topic(), {}) == AppendPolicy()


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("max.message.bytes", "2000", "message_bytes_max", 2000),
        ("segment.bytes", "1048576", "segment_bytes", 1 << 20),
        ("message.timestamp.type", "LogAppendTime", "log_append_time", True),
        ("message.timestamp.before.max.ms", "60000", "timestamp_before_ms_max", 60_000),
        ("message.timestamp.after.max.ms", "1000", "timestamp_after_ms_max", 1000),
        ("record.validation", "deep", "validate_records", True),
        ("cleanup.policy", "compact", "compacted", True),
        ("cleanup.policy", "delete", "compacted", False),
        ("compression.type", "producer", "codec", -1),
        ("compression.type", "uncompressed", "codec", 0),
        ("compression.type", "gzip", "compression_level", -1),
        ("compression.type", "snappy", "codec", 2),
        ("compression.type", "lz4", "compression_level", 9),
        ("compression.type", "zstd", "compression_level", 3),
    ],
)
def test_what_a_topic_sets_holds(name: str, value: str, field: str, expected: object) -> None:
    state = replace(topic(), configs={name: value})
    assert getattr(policy_of(state, {}), field) == expected


def test_compacted_topics_are_validated_deeply() -> None:
    assert policy_of(topic(cleanup_policy="compact,delete"), {}).deep


def test_the_codecs_own_level_holds() -> None:
    state = topic(compression_type="zstd", compression_zstd_level="9", compression_lz4_level="2")
    policy = policy_of(state, {"compression.zstd.level": "5"})
    assert (policy.codec, policy.compression_level) == (4, 9)
    policy = policy_of(topic(compression_type="snappy"), {})
    assert (policy.codec, policy.compression_level) == (2, None)


def test_brokers_may_ask_for_a_codec_but_not_for_internal_topics() -> None:
    brokers = {"compression.type": "gzip", "compression.gzip.level": "7"}
    policy = policy_of(topic(), brokers)
    assert (policy.codec, policy.compression_level) == (1, 7)
    internal = replace(topic(), internal=True)
    assert policy_of(internal, brokers).codec == -1
    assert policy_of(topic(compression_type="producer"), brokers).codec == -1


def test_min_insync_replicas_are_the_topics_or_those_of_all_nodes() -> None:
    """A single node may not have its own value, or leaders and controller would disagree."""
    policies = TopicPolicies({"min.insync.replicas": "5"})
    assert policies.min_isr(topic(3)) == 1
    policies.follow(replace(IMAGE, node_configs={NODE: {"min.insync.replicas": "4"}}), NODE)
    assert policies.min_isr(topic(3)) == 1
    policies.follow(replace(IMAGE, cluster_configs={"min.insync.replicas": "2"}), NODE)
    assert policies.min_isr(topic(3)) == 2
    assert policies.min_isr(replace(topic(3), configs={"min.insync.replicas": "3"})) == 3


def test_brokers_configs_are_the_defaults_of_topics() -> None:
    brokers = {"message.max.bytes": "5000", "log.message.timestamp.type": "LogAppendTime"}
    policy = policy_of(topic(max_message_bytes="7"), brokers)
    assert policy.message_bytes_max == 7
    assert policy.log_append_time
    assert policy_of(topic(), brokers).message_bytes_max == 5000


def test_policies_follow_the_image() -> None:
    policies = TopicPolicies({"log.flush.interval.ms": "9"})
    assert policies.broker_configs == {"log.flush.interval.ms": "9"}
    assert policies.follow(IMAGE, NODE)
    assert not policies.follow(replace(IMAGE, revision=2), NODE)
    changed = replace(IMAGE, cluster_configs={"message.max.bytes": "5"})
    assert policies.follow(changed, NODE)
    assert policies.broker_configs == {"log.flush.interval.ms": "9", "message.max.bytes": "5"}
    assert policies.append_policy(topic()).message_bytes_max == 5
    assert not policies.follow(changed, NODE)
    assert policies.follow(IMAGE, NODE)
    assert policies.append_policy(topic()) == AppendPolicy()


def bounded(message_bytes_max: int | None, instance: InstanceId = SHOP) -> ClusterImage:
    state = InstanceState(instance=instance, message_bytes_max=message_bytes_max)
    return replace(IMAGE, instances={instance: state})


def test_an_instances_bound_is_the_highest_that_a_topic_has() -> None:
    policies = TopicPolicies({})
    policies.follow(bounded(2_000), NODE)
    shops = replace(topic(), instance=SHOP)
    assert policies.append_policy(shops).message_bytes_max == 2_000
    larger = replace(shops, configs={"max.message.bytes": "5000"})
    assert policies.append_policy(larger).message_bytes_max == 2_000, "set before the bound"
    smaller = replace(shops, configs={"max.message.bytes": "500"})
    assert policies.append_policy(smaller).message_bytes_max == 500
    assert policies.append_policy(topic()) == AppendPolicy(), "of another instance"
    assert policies.append_policy(replace(shops, internal=True)) == AppendPolicy()


def test_a_changed_bound_concerns_its_instance_alone() -> None:
    policies = TopicPolicies({})
    policies.follow(IMAGE, NODE)
    assert policies.rebounded == frozenset()
    assert not policies.follow(bounded(2_000), NODE), "no default has changed"
    assert policies.rebounded == {SHOP}
    policies.follow(bounded(2_000), NODE)
    assert policies.rebounded == frozenset()
    policies.follow(bounded(3_000), NODE)
    assert policies.rebounded == {SHOP}
    policies.follow(IMAGE, NODE)
    assert policies.rebounded == {SHOP}
    assert policies.append_policy(replace(topic(), instance=SHOP)) == AppendPolicy()
