import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import delete_groups as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    request_of,
)
from tests.unit.gateway.handlers.images import group_topic, image_of

VERSIONS = range(3)
CODES = {"a": 0, "b": ErrorCode.NON_EMPTY_GROUP, "c": ErrorCode.GROUP_ID_NOT_FOUND}


def deleted(call):
    results = [
        codec.DeleteGroupsResponseDeletableGroupResult(group_id, CODES[group_id])
        for group_id in request_of(call).groups_names
    ]
    return (0, codec.encode_response(codec.DeleteGroupsResponse(0, results), call.api_version))


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_coordinator_decides(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(deleted)
    response = await Client(backend).call(codec.DeleteGroupsRequest(list("cba")), version)
    assert [(r.group_id, r.error_code) for r in response.results] == [
        ("c", 69),
        ("b", 68),
        ("a", 0),
    ]


async def test_a_group_named_twice_is_answered_once():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(deleted)
    response = await Client(backend).call(codec.DeleteGroupsRequest(["a", "a"]), 2)
    assert [(r.group_id, r.error_code) for r in response.results] == [("a", 0)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unreachable_coordinator_fails_its_groups(version):
    backend = FakeBackend(image_of(group_topic([1, -1, 3])))
    backend.coordinate(deleted)
    response = await Client(backend).call(codec.DeleteGroupsRequest(list("abc")), version)
    assert [(r.group_id, r.error_code) for r in response.results] == [
        ("a", 15),
        ("b", 68),
        ("c", 69),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_that_may_not_be_deleted(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(deleted)
    backend.deny((AclOperation.DELETE, a_group("c")))
    response = await Client(backend).call(codec.DeleteGroupsRequest(list("cca")), version)
    assert [(r.group_id, r.error_code) for r in response.results] == [
        ("a", 0),
        ("c", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]
    [(_, call)] = backend.coordinator_calls()
    assert request_of(call).groups_names == ["a"]
