import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import consumer_group_describe as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    request_of,
)
from tests.unit.gateway.handlers.images import group_topic, image_of

VERSIONS = range(2)
GROUP = codec.ConsumerGroupDescribeResponseDescribedGroup


def described(call):
    """One member with topic "t"; of the group "d" nothing is known."""
    held = codec.ConsumerGroupDescribeResponseAssignment(
        [codec.ConsumerGroupDescribeResponseTopicPartitions(bytes(16), "t", [0])]
    )
    member = codec.ConsumerGroupDescribeResponseMember("m-1", assignment=held)
    groups = [
        GROUP(ErrorCode.GROUP_ID_NOT_FOUND, "not found", group_id)
        if group_id == "d"
        else GROUP(0, None, group_id, "Stable", 3, 3, "uniform", [member])
        for group_id in request_of(call).group_ids
    ]
    response = codec.ConsumerGroupDescribeResponse(groups=groups)
    return (0, codec.encode_response(response, call.api_version))


async def ask(version, *denied, operations=False):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(described)
    if denied:
        backend.deny(*denied)
    request = codec.ConsumerGroupDescribeRequest(list("dcba"), operations)
    return (await Client(backend).call(request, version)).groups


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_come_back_in_order(version):
    groups = await ask(version)
    assert [(g.group_id, g.error_code) for g in groups] == [("d", 69), ("c", 0), ("b", 0), ("a", 0)]
    assert groups[0].error_message == "not found"
    assert groups[1].members[0].assignment.topic_partitions[0].topic_name == "t"


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_that_may_not_be_described(version):
    groups = await ask(version, (AclOperation.DESCRIBE, a_group("b")))
    assert [g.error_code for g in groups] == [69, 0, 30, 0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_with_topics_that_may_not_be_described(version):
    groups = await ask(version, (AclOperation.DESCRIBE, a_topic("t")))
    assert [(g.error_code, len(g.members)) for g in groups] == [(69, 0), (29, 0), (29, 0), (29, 0)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_authorized_operations_on_demand(version):
    nothing = -(2**31)
    groups = await ask(version, operations=True)
    assert groups[0].authorized_operations == nothing
    assert groups[1].authorized_operations > 0
    assert (await ask(version))[1].authorized_operations == nothing


async def test_without_a_coordinator_each_group_fails():
    backend = FakeBackend(image_of(group_topic([-1])))
    request = codec.ConsumerGroupDescribeRequest(["a"])
    [group] = (await Client(backend).call(request, 1)).groups
    assert (group.group_id, group.error_code) == ("a", ErrorCode.COORDINATOR_NOT_AVAILABLE)
