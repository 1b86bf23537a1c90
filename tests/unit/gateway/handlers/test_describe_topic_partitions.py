import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopicRequest,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import ResourceType
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    node,
    partition,
    topic,
    topic_id,
    with_listener,
)


def ask(*names, limit=2_000, cursor=None):
    return DescribeTopicPartitionsRequest(
        [DescribeTopicPartitionsRequestTopicRequest(name) for name in names], limit, cursor
    )


def pages(response):
    return [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]


def three_topics():
    foreign = topic("b-secret", instance=OTHER)
    return FakeBackend(
        image_of(topic("c", [1]), topic("a", [1, 2, 3]), topic("b", [1, 2]), foreign)
    )


async def test_everything_about_a_partition():
    state = partition(
        0,
        1,
        replicas=(NodeId(1), NodeId(2), NodeId(3)),
        isr=(NodeId(1),),
        eligible_leaders=(NodeId(3),),
    )
    image = image_of(
        topic("orders", partitions=(state, partition(1, -1))),
        nodes=[node(1), node(2, fenced=True), node(3)],
    )
    response = await Client(FakeBackend(image)).call(ask("orders"), 0)
    [found] = response.topics
    assert (found.error_code, found.topic_id) == (0, topic_id("orders"))
    assert (found.is_internal, found.topic_authorized_operations) == (False, 3576)
    first, second = found.partitions
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, 1, 5)
    assert (list(first.replica_nodes), list(first.isr_nodes)) == ([1, 2, 3], [1])
    assert (list(first.eligible_leader_replicas), list(first.last_known_elr)) == ([3], [])
    assert list(first.offline_replicas) == [2]
    assert (second.error_code, second.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert response.next_cursor is None


async def test_no_names_mean_all_in_order():
    response = await Client(three_topics()).call(ask(), 0)
    assert pages(response) == [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
async def test_pages_join_to_the_whole(limit):
    client = Client(three_topics())
    seen, cursor = [], None
    for _ in range(10):
        response = await client.call(ask("c", "b", "a", limit=limit, cursor=cursor), 0)
        page = [(name, n) for name, numbers in pages(response) for n in numbers]
        assert 0 < len(page) <= limit
        seen += page
        following = response.next_cursor
        if following is None:
            break
        cursor = DescribeTopicPartitionsRequestCursor(
            following.topic_name, following.partition_index
        )
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


@pytest.mark.parametrize("limit", [0, -5])
async def test_a_limit_below_one_is_one(limit):
    response = await Client(three_topics()).call(ask("a", limit=limit), 0)
    assert pages(response) == [("a", [0])]


async def test_a_cursor_behind_the_end():
    cursor = DescribeTopicPartitionsRequestCursor("z", 0)
    response = await Client(three_topics()).call(ask(cursor=cursor), 0)
    assert (response.topics, response.next_cursor) == ([], None)


@pytest.mark.parametrize(
    ("names", "cursor", "refused"),
    [
        (("a", "b"), ("b", -1), ["a", "b"]),
        (("a", "c"), ("b", 0), ["a", "c"]),
        (("a", "b"), ("z", 0), ["a", "b"]),
        ((), ("b", -1), ["b"]),
    ],
)
async def test_bad_cursors_are_refused(names, cursor, refused):
    cursor = DescribeTopicPartitionsRequestCursor(*cursor)
    response = await Client(three_topics()).call(ask(*names, cursor=cursor), 0)
    told = [(t.name, t.error_code) for t in response.topics]
    assert told == [(name, ErrorCode.INVALID_REQUEST) for name in refused]
    assert response.next_cursor is None


async def test_a_cursor_at_a_topic_that_has_gone_goes_on_after_it():
    cursor = DescribeTopicPartitionsRequestCursor("aa", 7)
    response = await Client(three_topics()).call(ask(cursor=cursor), 0)
    assert pages(response) == [("b", [0, 1]), ("c", [0])]


@pytest.mark.parametrize(("name", "code"), [("nothing", 3), ("b-secret", 3), ("no such name", 17)])
async def test_topics_that_do_not_exist_are_not_created(name, code):
    backend = three_topics()
    response = await Client(backend).call(ask(name), 0)
    assert [(t.name, t.error_code) for t in response.topics] == [(name, code)]
    assert backend.controller.requests == []


async def test_no_leader_older_than_clients_know_is_described():
    backend = FakeBackend(image_of(topic("orders", [1, 2])))
    routes = backend.routing.by_id(DEFAULT_INSTANCE, topic_id("orders"))
    backend.routing.told(routes.partitions[0], 6)
    response = await Client(backend).call(ask("orders"), 0)
    first, second = response.topics[0].partitions
    assert (first.error_code, first.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (first.leader_epoch, second.leader_id, second.leader_epoch) == (6, 2, 6)


@pytest.mark.parametrize(
    ("listener", "found"),
    [
        ("internal", [(0, 1, []), (ErrorCode.LEADER_NOT_AVAILABLE, -1, [])]),
        ("no-such", [(ErrorCode.LISTENER_NOT_FOUND, -1, [1]), (5, -1, [1])]),
    ],
)
async def test_a_leader_without_the_clients_listener_is_not_told(listener, found):
    image = with_listener(image_of(topic("orders", [1, -1])), "internal", "gw-1", 29092)
    response = await Client(FakeBackend(image), listener=listener).call(ask("orders"), 0)
    partitions = response.topics[0].partitions
    assert [(p.error_code, p.leader_id, list(p.offline_replicas)) for p in partitions] == found
    assert [p.leader_epoch for p in partitions] == [5, 6]


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_named_topics_that_may_not_be_described_come_last():
    backend = three_topics()
    backend.deny((AclOperation.DESCRIBE, a_topic("a")), (AclOperation.DESCRIBE, a_topic("none")))
    response = await Client(backend).call(ask("none", "a", "b"), 0)
    assert [(t.name, t.error_code, t.topic_id) for t in response.topics] == [
        ("b", 0, topic_id("b")),
        ("a", DENIED, bytes(16)),
        ("none", DENIED, bytes(16)),
    ]
    assert [t.topic_authorized_operations for t in response.topics[1:]] == [-(2**31)] * 2


async def test_all_topics_are_those_that_may_be_described():
    backend = three_topics()
    backend.deny((AclOperation.DESCRIBE, a_topic("b")))
    cursor = DescribeTopicPartitionsRequestCursor("b", 1)
    assert pages(await Client(backend).call(ask(), 0)) == [("a", [0, 1, 2]), ("c", [0])]
    assert pages(await Client(backend).call(ask(cursor=cursor), 0)) == [("c", [0])]
    first = await Client(backend).call(ask(limit=3), 0)
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == ("c", 0)


async def test_authorized_operations_also_of_topics_that_do_not_exist():
    backend = three_topics()
    backend.deny((AclOperation.WRITE, ResourceType.TOPIC))
    response = await Client(backend).call(ask("a", "nothing"), 0)
    assert [(t.name, t.error_code) for t in response.topics] == [("a", 0), ("nothing", 3)]
    assert [t.topic_authorized_operations for t in response.topics] == [0b1101_1110_1000] * 2
