import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import ResourceType
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.errors import UnreachableError
from highwater.model.ids import SYSTEM_INSTANCE
from highwater.model.instances import InstanceListener, InstanceState
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
)
from tests.unit.gateway.handlers.images import (
    OTHER,
    group_topic,
    image_of,
    node,
    shared_topic,
    transaction_topic,
    with_listener,
)

ONE_KEY = range(4)


def ask(version, *keys, key_type=0):
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
    return FindCoordinatorRequest(keys[0], key_type)


def results(response, version):
    """(error code, node, host, port) of each key."""
    found = response.coordinators if version >= 4 else [response]
    return [(one.error_code, one.node_id, one.host, one.port) for one in found]


NONE_YET = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)


@pytest.mark.parametrize("version", range(7))
async def test_the_leader_of_the_group_s_partition(version):
    # abs(hashCode) % 3 in Java: readers 1, writers 2.
    client = Client(FakeBackend(image_of(group_topic([3, 2, 1]))))
    assert results(await client.call(ask(version, "readers"), version), version) == [
        (0, 2, "10.1.1.1", 9094)
    ]


@pytest.mark.parametrize("version", range(7))
async def test_the_address_is_that_of_the_clients_listener(version):
    backend = FakeBackend(with_listener(image_of(group_topic([3, 2, 1])), "internal", "gw", 29092))
    found = await Client(backend, listener="internal").call(ask(version, "readers"), version)
    assert results(found, version) == [(0, 2, "gw", 29094)]
    missing = await Client(backend, listener="no-such").call(ask(version, "readers"), version)
    assert results(missing, version) == [NONE_YET]
    if version:
        one = missing.coordinators[0] if version >= 4 else missing
        assert one.error_message == "broker 2 has no listener no-such"


@pytest.mark.parametrize(
    ("key_type", "name"), [(0, "__consumer_offsets"), (1, "__transaction_state")]
)
async def test_other_instances_have_coordinators_of_their_own(key_type, name):
    """By another topic and another hash, and created on first use."""
    visible = {0: group_topic, 1: transaction_topic}[key_type]([1] * 3)
    team = InstanceState(instance=OTHER, listeners=(InstanceListener(port=20000),))
    image = image_of(visible, shared_topic(name, [3, 2]), instances={OTHER: team})
    client = Client(FakeBackend(image), instance=OTHER)
    keys = [f"key{number}" for number in range(6)]
    found = results(await client.call(ask(6, *keys, key_type=key_type), 6), 6)
    assert [one[1] for one in found] == [(3, 2)[coordinator_place(OTHER, key, 2)] for key in keys]
    assert {one[1:] for one in found} == {(2, "10.1.1.1", 20002), (3, "10.1.1.1", 20003)}
    backend = FakeBackend(image_of(visible))
    client = Client(backend, instance=OTHER)
    await client.call(ask(6, "key", key_type=key_type), 6)
    [asked] = backend.controller.requests
    assert (asked.instance, asked.topics[0].internal) == (SYSTEM_INSTANCE, True)


async def test_nothing_tells_of_the_shared_topic():
    backend = FakeBackend(image_of(shared_topic("__consumer_offsets", [-1])))
    found = await Client(backend, instance=OTHER).call(ask(6, "key"), 6)
    assert results(found, 6) == [NONE_YET]
    assert "__" not in found.coordinators[0].error_message


async def test_many_keys_in_their_order():
    client = Client(FakeBackend(image_of(group_topic([3, 2, -1]))))
    keys = ["group-a", "readers", "group-b", "readers"]
    response = await client.call(ask(4, *keys), 4)
    assert [one.key for one in response.coordinators] == keys
    alone = [results(await client.call(ask(4, key), 4), 4)[0] for key in keys]
    assert results(response, 4) == alone
    assert len(set(alone)) > 1


async def test_an_empty_request_has_no_answers():
    response = await Client(FakeBackend(image_of(group_topic()))).call(ask(4), 4)
    assert response.coordinators == []


@pytest.mark.parametrize("version", range(7))
async def test_the_first_call_creates_the_topic(version):
    backend = FakeBackend(group_metadata_partitions=3)
    response = await Client(backend).call(ask(version, "readers"), version)
    assert results(response, version) == [(0, 2, "10.1.1.1", 9094)]
    [request] = backend.controller.requests
    [wish] = request.topics
    assert (wish.name, wish.internal, wish.partitions) == ("__consumer_offsets", True, 3)
    await Client(backend).call(ask(version, "readers"), version)
    assert len(backend.controller.requests) == 1


@pytest.mark.parametrize("version", range(7))
async def test_while_the_topic_cannot_be_created(version):
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(ask(version, "readers"), version)
    assert results(response, version) == [NONE_YET]


@pytest.mark.parametrize("version", range(7))
async def test_while_there_are_fewer_nodes_than_replicas(version):
    backend = FakeBackend(group_metadata_replication_factor=3)
    code = int(ErrorCode.INVALID_REPLICATION_FACTOR)
    backend.controller.errors["__consumer_offsets"] = (code, "only 1 broker(s) are registered.")
    response = await Client(backend).call(ask(version, "readers"), version)
    assert results(response, version) == [NONE_YET]


async def test_while_the_leader_is_fenced():
    nodes = [node(1), node(2, fenced=True), node(3)]
    client = Client(FakeBackend(image_of(group_topic([3, 2, 1]), nodes=nodes)))
    assert results(await client.call(ask(4, "readers"), 4), 4) == [NONE_YET]


async def test_while_nobody_leads():
    client = Client(FakeBackend(image_of(group_topic([-1, -1, -1]))))
    assert results(await client.call(ask(3, "readers"), 3), 3) == [NONE_YET]


async def test_while_no_gateway_serves_the_leader():
    client = Client(FakeBackend(image_of(group_topic([1, 1, 1]), nodes=[node(2)])))
    assert results(await client.call(ask(3, "readers"), 3), 3) == [NONE_YET]


@pytest.mark.parametrize("version", range(1, 7))
async def test_the_leader_of_the_transactional_id_s_partition(version):
    # abs(hashCode) % 3 in Java: readers 1, payments 2.
    backend = FakeBackend(image_of(group_topic([2, 2, 2]), transaction_topic([1, 2, 3])))
    found = await Client(backend).call(ask(version, "payments", key_type=1), version)
    assert results(found, version) == [(0, 3, "10.1.1.1", 9095)]
    if version >= 4:
        found = await Client(backend).call(ask(version, "readers", "payments", key_type=1), version)
        assert [node for _, node, _, _ in results(found, version)] == [2, 3]


@pytest.mark.parametrize("version", range(1, 7))
async def test_the_first_call_for_a_transaction_creates_the_topic_of_transactions(version):
    backend = FakeBackend(image_of(group_topic()), transaction_state_partitions=3)
    response = await Client(backend).call(ask(version, "payments", key_type=1), version)
    assert results(response, version) == [(0, 3, "10.1.1.1", 9095)]
    [request] = backend.controller.requests
    [wish] = request.topics
    assert (wish.name, wish.internal, wish.partitions) == ("__transaction_state", True, 3)
    await Client(backend).call(ask(version, "payments", key_type=1), version)
    assert len(backend.controller.requests) == 1


@pytest.mark.parametrize(("version", "key_type"), [(4, 2), (5, 2), (6, 3), (6, -1)])
async def test_unknown_key_types(version, key_type):
    response = await Client(FakeBackend()).call(ask(version, "x", key_type=key_type), version)
    assert results(response, version) == [(ErrorCode.INVALID_REQUEST, -1, "", -1)]


async def test_no_coordinator_of_share_groups():
    backend = FakeBackend()
    response = await Client(backend).call(ask(6, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", key_type=2), 6)
    assert results(response, 6) == [NONE_YET]
    assert "share groups are not served" in response.coordinators[0].error_message
    assert backend.controller.requests == []


@pytest.mark.parametrize(
    ("version", "key_type", "resource_type", "code"),
    [
        *(
            (version, 0, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for version in range(5)
        ),
        *(
            (
                version,
                1,
                ResourceType.TRANSACTIONAL_ID,
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
            for version in range(1, 5)
        ),
    ],
)
async def test_who_may_not_describe_it_gets_no_coordinator(version, key_type, resource_type, code):
    backend = FakeBackend()
    backend.deny((AclOperation.DESCRIBE, resource_type))
    response = await Client(backend).call(ask(version, "x", key_type=key_type), version)
    assert results(response, version) == [(code, -1, "", -1)]
    assert backend.controller.requests == [], "the topic of groups is not made for it"


async def test_a_denied_group_that_is_named_twice_is_asked_about_once():
    backend = FakeBackend()
    authorizer = backend.deny((AclOperation.DESCRIBE, a_group("hidden")))
    response = await Client(backend).call(ask(4, "hidden", "hidden"), 4)
    assert [one.error_code for one in response.coordinators] == [30, 30]
    assert (len(authorizer.asked), backend.controller.requests) == (1, [])


async def test_other_groups_are_told():
    backend = FakeBackend(image_of(group_topic([3, 2, 1])))
    backend.deny((AclOperation.DESCRIBE, a_group("hidden")))
    response = await Client(backend).call(ask(4, "hidden", "readers", "hidden"), 4)
    denied = (ErrorCode.GROUP_AUTHORIZATION_FAILED, -1, "", -1)
    assert results(response, 4) == [denied, (0, 2, "10.1.1.1", 9094), denied]
