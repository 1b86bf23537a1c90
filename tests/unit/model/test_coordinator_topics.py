from highwater.model.coordinator_topics import (
    COORDINATOR_TOPICS,
    coordinator_home,
    coordinator_place,
    coordinator_topic_name,
)
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from highwater.model.partitioning import coordinator_partition

TEAM = InstanceId("team")


def where(topic, instance):
    return coordinator_home(instance), coordinator_topic_name(topic, instance)


def test_the_default_instance_has_kafkas_topics():
    for topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
        assert where(topic, DEFAULT_INSTANCE) == (DEFAULT_INSTANCE, topic)
    assert coordinator_place(DEFAULT_INSTANCE, "g", 50) == coordinator_partition("g", 50)


def test_all_others_share_two_topics_of_nobody():
    for topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
        assert where(topic, TEAM) == where(topic, InstanceId("other"))
        assert where(topic, TEAM)[0] == SYSTEM_INSTANCE
    assert where(GROUP_METADATA_TOPIC, TEAM) != where(TRANSACTION_STATE_TOPIC, TEAM)


def test_there_are_no_other_internal_topics():
    assert {
        where(topic, instance)
        for topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
        for instance in (DEFAULT_INSTANCE, TEAM)
    } == COORDINATOR_TOPICS


def test_instances_spread_equal_keys():
    places = [coordinator_place(InstanceId(f"i{number}"), "g", 50) for number in range(1_000)]
    counts = [places.count(place) for place in range(50)]
    assert min(counts) > 0
    assert max(counts) < 100
