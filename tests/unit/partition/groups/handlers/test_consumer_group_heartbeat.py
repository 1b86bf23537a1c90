import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from highwater.partition.groups.handlers import consumer_group_heartbeat
from tests.unit.partition.groups.consumer_dialogue import Talk
from tests.unit.partition.groups.handlers.exchange import Exchange
from tests.unit.partition.groups.topics import topic_id


def ask(x, version, *fields, **options):
    request = ConsumerGroupHeartbeatRequest("g", *fields, **options)
    body = consumer_group_heartbeat.handle(x.d.shard, x.call(request, version), x.d.moment)
    x.d.settle()
    return x.decode(body, version)


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_reports_and_leaves(version):
    x = Exchange(ApiKey.CONSUMER_GROUP_HEARTBEAT, Talk())
    full = {"rebalance_timeout_ms": 9, "subscribed_topic_names": ["t"], "topic_partitions": []}
    answer = ask(x, version, "m" if version else "", 0, rack_id="r", **full)
    member = answer.member_id
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 1, 5_000)
    [part] = answer.assignment.topic_partitions
    assert (part.topic_id, list(part.partitions)) == (topic_id("t"), [0, 1, 2, 3, 4, 5])
    stored = x.d.group().members[member].metadata
    assert (stored.client_id, stored.client_host, stored.rack_id) == ("app", "/10.0.0.1", "r")
    assert ask(x, version, member, 1).assignment is None
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id("t"), [0])]
    assert ask(x, version, member, 1, topic_partitions=owned).error_code == 0
    assert ask(x, version, member, -1).member_epoch == -1


def test_a_refusal_has_kafka_s_message():
    x = Exchange(ApiKey.CONSUMER_GROUP_HEARTBEAT, Talk())
    answer = ask(x, 1, "", 0)
    assert (answer.error_code, answer.error_message) == (42, "MemberId can't be empty.")
