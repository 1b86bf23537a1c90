import asyncio
from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, ResourceType
from highwater.model.cluster import GatewayState
from highwater.model.errors import UnreachableError
from highwater.model.ids import DEFAULT_INSTANCE, NO_TOPIC_ID, GatewayId, NodeId
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    GATEWAY,
    OTHER,
    group_topic,
    image_of,
    node,
    partition,
    shared_topic,
    topic,
    topic_id,
    with_listener,
)

VERSIONS = range(14)


def ask(*names, **fields):
    return MetadataRequest([MetadataRequestMetadataRequestTopic(name=n) for n in names], **fields)


def access_log():
    return topic(
        "access_log",
        partitions=(
            partition(0, 1, replicas=(NodeId(1), NodeId(2)), isr=(NodeId(1),)),
            partition(1, 3, replicas=(NodeId(3), NodeId(1)), isr=(NodeId(3), NodeId(1))),
        ),
    )


def codes(response):
    return [(t.name, t.error_code) for t in response.topics]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_field_of_the_version(version):
    backend = FakeBackend(image_of(access_log(), nodes=[node(1), node(2, fenced=True), node(3)]))
    response = await Client(backend).call(ask("access_log"), version)
    racks = ["rack-1", "rack-3"] if version >= 1 else [None] * 2
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "10.1.1.1", 9093),
        (3, "10.1.1.1", 9095),
    ]
    assert [b.rack for b in response.brokers] == racks
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("cluster-of-tests" if version >= 2 else None)
    [found] = response.topics
    assert (found.error_code, found.name, found.is_internal) == (0, "access_log", False)
    assert found.topic_id == (topic_id("access_log") if version >= 10 else NO_TOPIC_ID)
    assert response.error_code == 0
    first, second = found.partitions
    assert (first.error_code, first.partition_index, first.leader_id) == (0, 0, 1)
    assert (list(first.replica_nodes), list(first.isr_nodes)) == ([1, 2], [1])
    assert list(first.offline_replicas) == ([2] if version >= 5 else [])
    assert first.leader_epoch == (5 if version >= 7 else -1)
    assert (second.leader_id, second.leader_epoch) == (3, 6 if version >= 7 else -1)
    assert list(second.isr_nodes) == [3, 1]
    assert found.topic_authorized_operations == -(2**31)
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_fenced_leader_is_shown_as_none(version):
    """Every leader in the response is also in its list of brokers."""
    nodes = [node(1, fenced=True), node(2), node(3)]
    backend = FakeBackend(image_of(topic("t", [1, 2]), nodes=nodes))
    response = await Client(backend).call(ask("t"), version)
    first, second = response.topics[0].partitions
    assert (first.error_code, first.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert list(first.replica_nodes) == [1]
    assert (second.error_code, second.leader_id) == (0, 2)
    assert [b.node_id for b in response.brokers] == [2, 3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_addresses_are_those_of_the_clients_listener(version):
    backend = FakeBackend(with_listener(image_of(access_log()), "internal", "gw-1", 29092))
    response = await Client(backend, listener="internal").call(ask("access_log"), version)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "gw-1", 29093),
        (2, "gw-1", 29094),
        (3, "gw-1", 29095),
    ]
    assert [(p.error_code, p.leader_id) for p in response.topics[0].partitions] == [(0, 1), (0, 3)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_broker_without_the_clients_listener_is_not_there(version):
    """KIP-103; the error of its partitions is known from version 6 on."""
    image = with_listener(image_of(access_log()), "internal", "gw-1", 29092)
    other = GatewayState(gateway_id=GatewayId("b"), host="b", port=9092, single_port=False)
    backend = FakeBackend(
        replace(
            image,
            gateways={**image.gateways, other.gateway_id: other},
            node_gateways={NodeId(1): GATEWAY, NodeId(2): GATEWAY, NodeId(3): other.gateway_id},
        )
    )
    response = await Client(backend, listener="internal").call(ask("access_log"), version)
    assert [b.node_id for b in response.brokers] == [1, 2]
    first, second = response.topics[0].partitions
    assert (first.error_code, first.leader_id) == (0, 1)
    late = version >= 6
    code = ErrorCode.LISTENER_NOT_FOUND if late else ErrorCode.LEADER_NOT_AVAILABLE
    assert (second.error_code, second.leader_id) == (code, -1)
    assert list(second.replica_nodes) == [3, 1]
    assert list(second.offline_replicas) == ([3] if version >= 5 else [])
    by_default = await Client(backend).call(ask("access_log"), version)
    assert [p.error_code for p in by_default.topics[0].partitions] == [0, 0]


async def test_a_client_hears_of_new_leaders_before_the_former_one_is_gone():
    backend = FakeBackend(image_of(topic("t", [1, 2]), nodes=[node(1), node(2), node(3)]))
    before, asked = Client(backend), Client(backend)
    await asked.call(ask("t"), 9)
    moved = replace(topic("t", [3, 2]), topic_id=topic_id("t"))
    backend.change(nodes=(node(1, fenced=True),), topics=(moved,))
    for client in (before, asked):
        first, second = [await client.call(ask("t"), 9) for _ in range(2)]
        assert [p.leader_id for p in first.topics[0].partitions] == [3, 2]
        assert [b.node_id for b in first.brokers] == [1, 2, 3]
        assert first.controller_id == 2
        assert [b.node_id for b in second.brokers] == [2, 3]
    later = await Client(backend, told_revision=backend.routing.revision).call(ask("t"), 9)
    assert [b.node_id for b in later.brokers] == [2, 3], "it never knew the node"


async def test_all_brokers_are_listed_if_all_are_fenced():
    backend = FakeBackend(image_of(nodes=[node(1, fenced=True), node(2, fenced=True)]))
    response = await Client(backend).call(ask(), 9)
    assert [b.node_id for b in response.brokers] == [1, 2], "or a client would lose every address"
    assert response.controller_id == -1


async def test_a_node_that_is_fenced_again_is_told_of_once_more():
    backend = FakeBackend(image_of(nodes=[node(1), node(2, fenced=True)]))
    client = Client(backend)
    found = []
    for fenced in (True, False, True, True):
        backend.change(nodes=(node(2, fenced=fenced),))
        response = await client.call(ask(), 9)
        found.append([b.node_id for b in response.brokers])
    assert found == [[1], [1, 2], [1, 2], [1]]


@pytest.mark.parametrize(
    ("version", "topics", "found"),
    [
        (0, [], ["access_log", "orders"]),
        (1, [], []),
        (1, None, ["access_log", "orders"]),
        (9, [], []),
        (9, None, ["access_log", "orders"]),
    ],
)
async def test_null_and_empty_topic_lists(version, topics, found):
    backend = FakeBackend(image_of(access_log(), topic("orders")))
    response = await Client(backend).call(MetadataRequest(topics), version)
    assert sorted(t.name for t in response.topics) == found


async def test_topics_of_another_instance_do_not_exist():
    foreign = topic("secret", instance=OTHER)
    backend = FakeBackend(image_of(topic("orders"), foreign))
    everything = await Client(backend).call(MetadataRequest(None), 9)
    assert codes(everything) == [("orders", 0)]
    named = await Client(backend).call(ask("secret", allow_auto_topic_creation=False), 9)
    assert codes(named) == [("secret", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    theirs = await Client(backend, instance=OTHER).call(MetadataRequest(None), 9)
    assert codes(theirs) == [("secret", 0)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_partition_without_leader(version):
    backend = FakeBackend(image_of(topic("orders", [1, -1])))
    response = await Client(backend).call(ask("orders"), version)
    [found] = response.topics
    assert [(p.error_code, p.leader_id) for p in found.partitions] == [(0, 1), (5, -1)]


async def test_a_leader_that_no_gateway_serves_is_not_named():
    backend = FakeBackend(image_of(topic("orders", [2]), nodes=[node(1)]))
    response = await Client(backend).call(ask("orders"), 9)
    assert [b.node_id for b in response.brokers] == [1]
    [found] = response.topics[0].partitions
    assert (found.error_code, found.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unknown_topic_is_created_and_answered_with_its_leaders(version):
    backend = FakeBackend(partitions_default=4)
    response = await Client(backend).call(ask("clicks"), version)
    [created] = response.topics
    assert (created.error_code, created.name) == (0, "clicks")
    assert [p.leader_id for p in created.partitions] == [1, 2, 3, 1]
    [asked] = backend.controller.requests
    assert asked.instance == "default"
    [wish] = asked.topics
    assert (wish.name, wish.partitions, wish.replication_factor) == ("clicks", 4, 1)


async def test_missing_topics_are_created_in_one_call():
    backend = FakeBackend(image_of(topic("orders")))
    response = await Client(backend).call(ask("a", "orders", "b", "a"), 4)
    assert codes(response) == [("a", 0), ("orders", 0), ("b", 0)]
    [asked] = backend.controller.requests
    assert [wish.name for wish in asked.topics] == ["a", "b"]


@pytest.mark.parametrize("version", range(4, 10))
async def test_the_client_can_forbid_creation(version):
    backend = FakeBackend()
    response = await Client(backend).call(ask("clicks", allow_auto_topic_creation=False), version)
    assert codes(response) == [("clicks", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert backend.controller.requests == []


async def test_the_gateway_can_forbid_creation():
    backend = FakeBackend(auto_create_topics=False)
    response = await Client(backend).call(ask("clicks"), 4)
    assert codes(response) == [("clicks", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert backend.controller.requests == []


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_other_instances_have_no_internal_topics(name):
    backend = FakeBackend()
    response = await Client(backend, instance=OTHER).call(ask(name), 4)
    assert codes(response) == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert backend.controller.requests == []
    assert codes(await Client(backend).call(ask(name), 4)) == [(name, 0)]


async def test_the_topics_that_instances_share_are_not_shown():
    shared = shared_topic("__consumer_offsets")
    backend = FakeBackend(image_of(shared), auto_create_topics=False)
    for instance in (DEFAULT_INSTANCE, OTHER):
        client = Client(backend, instance=instance)
        assert (await client.call(MetadataRequest(None), 9)).topics == []
        named = await client.call(ask(shared.name), 9)
        assert codes(named) == [(shared.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_listing_all_topics_creates_none():
    backend = FakeBackend()
    response = await Client(backend).call(MetadataRequest(None), 9)
    assert response.topics == []
    assert backend.controller.requests == []


async def test_a_created_topic_that_is_not_visible_yet():
    backend = FakeBackend()
    backend.controller.publishes = False
    response = await Client(backend).call(ask("clicks"), 9)
    assert codes(response) == [("clicks", ErrorCode.LEADER_NOT_AVAILABLE)]


async def test_an_unreachable_controller_is_a_retriable_error():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(ask("clicks"), 9)
    assert codes(response) == [("clicks", ErrorCode.LEADER_NOT_AVAILABLE)]


async def test_errors_of_topic_creation():
    backend = FakeBackend()
    backend.controller.errors["clicks"] = (ErrorCode.INVALID_REPLICATION_FACTOR, "too few nodes")
    response = await Client(backend).call(ask("clicks", "orders"), 9)
    assert codes(response) == [("clicks", ErrorCode.INVALID_REPLICATION_FACTOR), ("orders", 0)]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "naïve"])
@pytest.mark.parametrize("version", [0, 9])
async def test_an_illegal_name_is_refused_and_not_created(name, version):
    backend = FakeBackend()
    response = await Client(backend).call(ask(name), version)
    assert codes(response) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", [8, 9])
async def test_authorized_operations_when_asked_for(version):
    backend = FakeBackend(image_of(topic("orders")))
    request = ask(
        "orders",
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    response = await Client(backend).call(request, version)
    assert response.topics[0].topic_authorized_operations == 3576
    assert response.cluster_authorized_operations == 8096


async def test_internal_topics_are_marked():
    backend = FakeBackend(image_of(group_topic(), topic("orders")))
    response = await Client(backend).call(MetadataRequest(None), 1)
    assert {t.name: t.is_internal for t in response.topics} == {
        "__consumer_offsets": True,
        "orders": False,
    }


async def test_topic_ids_are_absent_before_version_10():
    backend = FakeBackend(image_of(topic("orders")))
    response = await Client(backend).call(ask("orders"), 9)
    assert response.topics[0].topic_id == bytes(16) != topic_id("orders")


def elected(state, leader):
    """The topic with another leader of its first partition."""
    first, *others = state.partitions
    led = replace(first, leader=NodeId(leader), leader_epoch=first.leader_epoch + 1)
    return replace(state, partitions=(led, *others))


def behind_on(*topics):
    """A gateway that has shown epoch 6 of the first topic's first partition and has epoch 5."""
    backend = FakeBackend(image_of(*topics))
    routes = backend.routing.by_id(DEFAULT_INSTANCE, topics[0].topic_id)
    backend.routing.told(routes.partitions[0], 6)
    return backend


@pytest.mark.parametrize("names", [["orders"], None])
async def test_metadata_waits_for_an_image_that_other_gateways_have(names):
    orders = topic("orders", [1, 2])
    backend = behind_on(orders)
    request = MetadataRequest(None) if names is None else ask(*names)
    asked = asyncio.create_task(Client(backend).call(request, 9))
    await asyncio.sleep(0.005)
    backend.change()
    await asyncio.sleep(0.005)
    assert not asked.done(), "any other change is not enough"
    backend.change(topics=(elected(orders, 3),))
    response = await asked
    [found] = response.topics
    told = [(p.error_code, p.leader_id, p.leader_epoch) for p in found.partitions]
    assert told == [(0, 3, 6), (0, 2, 6)]
    assert backend.routing.ahead == {}


async def test_no_leader_of_an_older_epoch_is_shown_if_the_image_does_not_come():
    backend = behind_on(topic("orders", [1, 2]))
    response = await Client(backend).call(ask("orders"), 9)
    first, second = response.topics[0].partitions
    assert (first.error_code, first.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert first.leader_epoch == 6
    assert (second.error_code, second.leader_id) == (0, 2)


async def test_metadata_waits_for_the_image_that_the_controller_has():
    backend = FakeBackend(image_of(topic("orders")))
    backend.routing.note_revision(backend.image.revision + 2)
    asked = asyncio.create_task(Client(backend).call(ask("orders"), 9))
    await asyncio.sleep(0.005)
    backend.change()
    await asyncio.sleep(0.005)
    assert not asked.done(), "the client may have the next one from another gateway"
    backend.change(topics=(elected(topic("orders"), 3),))
    [found] = (await asked).topics
    assert (found.partitions[0].leader_id, found.partitions[0].leader_epoch) == (3, 6)
    async with asyncio.timeout(0.04):  # A wait that times out takes longer.
        await Client(backend).call(ask("orders"), 9)


async def test_metadata_does_not_wait_for_another_topics_image():
    backend = behind_on(topic("orders"), topic("payments"))
    async with asyncio.timeout(0.04):  # A wait that times out takes longer.
        response = await Client(backend).call(ask("payments"), 9)
    assert codes(response) == [("payments", 0)]


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", VERSIONS)
async def test_named_topics_that_may_not_be_described_are_refused_without_a_look(version):
    backend = FakeBackend(image_of(access_log(), topic("orders")))
    backend.deny((AclOperation.DESCRIBE, a_topic("orders")), (AclOperation.DESCRIBE, a_topic("x")))
    response = await Client(backend).call(ask("orders", "access_log", "x"), version)
    assert codes(response) == [("access_log", 0), ("orders", DENIED), ("x", DENIED)]
    assert all(not one.partitions and not one.is_internal for one in response.topics[1:])
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_topics_are_those_that_may_be_described(version):
    backend = FakeBackend(image_of(access_log(), topic("orders")))
    backend.deny((AclOperation.DESCRIBE, a_topic("orders")))
    request = ask() if version == 0 else MetadataRequest(None)
    assert codes(await Client(backend).call(request, version)) == [("access_log", 0)]


@pytest.mark.parametrize("denied", [a_topic("clicks"), ResourceType.TOPIC])
async def test_creation_needs_the_cluster_or_the_topic(denied):
    backend = FakeBackend(image_of(access_log()))
    backend.deny((AclOperation.CREATE, THE_CLUSTER), (AclOperation.CREATE, denied))
    response = await Client(backend).call(ask("clicks", "access_log", "orders"), 9)
    created = [wish.name for asked in backend.controller.requests for wish in asked.topics]
    if denied == a_topic("clicks"):
        assert codes(response) == [("access_log", 0), ("orders", 0), ("clicks", DENIED)]
        assert created == ["orders"]
    else:
        assert codes(response) == [("access_log", 0), ("clicks", DENIED), ("orders", DENIED)]
        assert created == []


async def test_who_may_create_in_the_cluster_may_create_every_topic():
    backend = FakeBackend(image_of())
    backend.deny((AclOperation.CREATE, ResourceType.TOPIC))
    assert codes(await Client(backend).call(ask("clicks"), 9)) == [("clicks", 0)]


async def test_nobody_needs_to_create_what_is_not_created():
    backend = FakeBackend(image_of(access_log()), auto_create_topics=False)
    authorizer = backend.deny((AclOperation.CREATE, ResourceType.TOPIC))
    response = await Client(backend).call(ask("access_log", "clicks"), 9)
    assert codes(response) == [("access_log", 0), ("clicks", 3)]
    assert {operation for _, operation, _ in authorizer.asked} == {AclOperation.DESCRIBE}


@pytest.mark.parametrize("version", [8, 9])
async def test_authorized_operations_are_those_of_the_authorizer(version):
    backend = FakeBackend(image_of(access_log()), auto_create_topics=False)
    backend.deny((AclOperation.WRITE, ResourceType.TOPIC), (AclOperation.DESCRIBE, THE_CLUSTER))
    backend.authorizer.denied.add((AclOperation.DESCRIBE, a_topic("hidden")))
    request = ask(
        "access_log",
        "nothing",
        "hidden",
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = await Client(backend).call(request, version)
    assert response.cluster_authorized_operations == 0
    assert [(t.name, t.topic_authorized_operations) for t in response.topics] == [
        ("access_log", 0b1101_1110_1000),
        ("nothing", 0b1101_1110_1000),
        ("hidden", -(2**31)),
    ]
