import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import list_groups as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, ResourceType
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import group_topic, image_of

VERSIONS = range(6)


def backend_of(leaders):
    backend = FakeBackend(image_of(group_topic(leaders)))
    for number, link in backend.links.items():
        link.coordinate = _lists(f"group-of-{number}")
    return backend


def _lists(name):
    def answer(call):
        group = codec.ListGroupsResponseListedGroup(name, "consumer", "Stable", "classic")
        response = codec.ListGroupsResponse(groups=[group])
        return (0, codec.encode_response(response, call.api_version))

    return answer


def names(response):
    return [group.group_id for group in response.groups]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_broker_lists_its_own_groups(version):
    backend = backend_of([1, 2, 3])
    response = await Client(backend, node_id=2).call(codec.ListGroupsRequest(), version)
    assert (response.error_code, names(response)) == (0, ["group-of-2"])
    assert response.groups[0].protocol_type == "consumer"
    assert response.groups[0].group_state == ("Stable" if version >= 4 else "")
    assert response.groups[0].group_type == ("classic" if version >= 5 else "")
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition) == (2, -1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_bootstrap_port_answers_for_all_nodes(version):
    response = await Client(backend_of([3, 1, 3])).call(codec.ListGroupsRequest(), version)
    assert names(response) == ["group-of-1", "group-of-3"]


async def test_a_broker_that_leads_nothing_has_no_groups():
    backend = backend_of([1, 3, 3])
    response = await Client(backend, node_id=2).call(codec.ListGroupsRequest(), 4)
    assert (response.error_code, names(response)) == (0, [])
    assert backend.coordinator_calls() == []


async def test_no_groups_before_the_first_is_used():
    response = await Client(FakeBackend()).call(codec.ListGroupsRequest(), 4)
    assert (response.error_code, names(response)) == (0, [])


async def test_filters_reach_the_coordinators():
    backend = backend_of([1, 2, 3])
    await Client(backend).call(codec.ListGroupsRequest(["Stable", "Empty"], ["classic"]), 5)
    asked = [request_of(call) for _, call in backend.coordinator_calls()]
    assert [one.states_filter for one in asked] == [["Stable", "Empty"]] * 3
    assert [one.types_filter for one in asked] == [["classic"]] * 3


async def test_a_loading_coordinator_is_an_error_beside_the_groups_of_others():
    backend = backend_of([1, 2, 3])
    backend.links[2].coordinate = refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = await Client(backend).call(codec.ListGroupsRequest(), 4)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert names(response) == ["group-of-1", "group-of-3"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_the_cluster_only_groups_that_may_be_described(version):
    backend = backend_of([1, 2, 3])
    cluster = (AclOperation.DESCRIBE, THE_CLUSTER)
    backend.deny(cluster, (AclOperation.DESCRIBE, a_group("group-of-2")))
    response = await Client(backend).call(codec.ListGroupsRequest(), version)
    assert (response.error_code, names(response)) == (0, ["group-of-1", "group-of-3"])


async def test_who_may_describe_the_cluster_sees_all_groups():
    backend = backend_of([1, 2, 3])
    authorizer = backend.deny((AclOperation.DESCRIBE, ResourceType.GROUP))
    response = await Client(backend).call(codec.ListGroupsRequest(), 4)
    assert len(names(response)) == 3
    assert [one for _, _, one in authorizer.asked] == [THE_CLUSTER]
