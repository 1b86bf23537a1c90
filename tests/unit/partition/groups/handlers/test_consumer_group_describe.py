import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from highwater.partition.groups.handlers import consumer_group_describe
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.embedded_members import Embedded
from tests.unit.partition.groups.handlers.exchange import Exchange
from tests.unit.partition.groups.topics import topic_id


def ask(x, version, *group_ids, shard_of=None):
    call = x.call(ConsumerGroupDescribeRequest(list(group_ids)), version)
    return x.decode(consumer_group_describe.handle(shard_of or x.shard_of, call), version).groups


@pytest.mark.parametrize("version", [0, 1])
def test_members_of_both_protocols(version):
    d = Talk()
    Consumer(d, "a", topic_regex="u").join()
    Embedded(d).join()
    x = Exchange(ApiKey.CONSUMER_GROUP_DESCRIBE, d)
    [group] = ask(x, version, "g")
    assert (group.error_code, group.group_state, group.assignor_name) == (
        0,
        "Reconciling",
        "uniform",
    )
    first, second = group.members
    assert (first.member_id, first.subscribed_topic_regex) == ("a", "u")
    [target] = second.target_assignment.topic_partitions
    assert (target.topic_id, target.topic_name) == (topic_id("t"), "t")
    assert [m.member_type for m in group.members] == ([1, 0] if version else [-1, -1])


def test_groups_that_are_not_there():
    d = Talk()
    d.commit({("t", 0): 1}, group="classic")
    x = Exchange(ApiKey.CONSUMER_GROUP_DESCRIBE, d)
    one, two = ask(x, 1, "classic", "none")
    assert (one.error_code, one.error_message) == (69, "Group classic is not a consumer group.")
    assert (two.error_code, two.error_message) == (69, "Group none not found.")
    [refused] = ask(x, 1, "g", shard_of=lambda _: ErrorCode.NOT_COORDINATOR)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
