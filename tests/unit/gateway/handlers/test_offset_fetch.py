import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_fetch as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.ids import NO_TOPIC_ID, InstanceId
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    topic,
    topic_id,
)

VERSIONS = range(1, 10)
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def fetch(version):
    if version >= 8:
        topics = [codec.OffsetFetchRequestOffsetFetchRequestTopics("access_log", bytes(16), [0, 1])]
        group = codec.OffsetFetchRequestOffsetFetchRequestGroup("readers", None, -1, topics)
        return codec.OffsetFetchRequest(groups=[group])
    topics = [codec.OffsetFetchRequestOffsetFetchRequestTopic("access_log", [0, 1])]
    return codec.OffsetFetchRequest("readers", topics)


def fetched(version):
    if version >= 8:
        partition = codec.OffsetFetchResponseOffsetFetchResponsePartitions(0, 42, 5, "note")
        topic = codec.OffsetFetchResponseOffsetFetchResponseTopics(
            "access_log", bytes(16), [partition]
        )
        group = codec.OffsetFetchResponseOffsetFetchResponseGroup("readers", [topic])
        return codec.OffsetFetchResponse(groups=[group])
    epoch = 5 if version >= 5 else -1
    partition = codec.OffsetFetchResponseOffsetFetchResponsePartition(0, 42, epoch, "note")
    topic = codec.OffsetFetchResponseOffsetFetchResponseTopic("access_log", [partition])
    return codec.OffsetFetchResponse(topics=[topic])


def groups(*ids):
    return codec.OffsetFetchRequest(
        groups=[
            codec.OffsetFetchRequestOffsetFetchRequestGroup(group_id, topics=None)
            for group_id in ids
        ],
        require_stable=True,
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_of_one_group_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(fetched(version)))
    assert await Client(backend).call(fetch(version), version) == fetched(version)
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, request_of(call)) == (2, 1, fetch(version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, LOADING),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, LOADING),
        (LOADING, LOADING),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ],
)
async def test_errors_of_the_call_go_where_the_version_has_a_field(version, refused, told):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(refused))
    response = await Client(backend).call(fetch(version), version)
    if version >= 8:
        assert [(g.group_id, g.error_code) for g in response.groups] == [("readers", told)]
    elif version >= 2:
        assert (response.error_code, list(response.topics)) == (told, [])
    else:
        [topic] = response.topics
        assert [
            (p.partition_index, p.committed_offset, p.error_code) for p in topic.partitions
        ] == [
            (0, -1, told),
            (1, -1, told),
        ]


async def test_groups_go_to_their_coordinators_and_come_back_in_order():
    backend = FakeBackend(image_of(group_topic([1, 2, 3])))

    def answer(call):
        request = request_of(call)
        assert request.require_stable
        if call.partition == 2:
            return (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, b"")
        found = [
            codec.OffsetFetchResponseOffsetFetchResponseGroup(
                group.group_id,
                [codec.OffsetFetchResponseOffsetFetchResponseTopics(f"of-{group.group_id}")],
            )
            for group in request.groups
        ]
        return (0, codec.encode_response(codec.OffsetFetchResponse(groups=found), 8))

    backend.coordinate(answer)
    ids = ["a", "b", "c", "d", "readers"]
    response = await Client(backend).call(groups(*ids), 8)
    assert [group.group_id for group in response.groups] == ids
    # abs(hashCode) % 3 in Java: a 1, b 2, c 0, d 1, readers 1.
    assert [group.error_code for group in response.groups] == [0, 14, 0, 0, 0]
    assert [[t.name for t in group.topics] for group in response.groups] == [
        ["of-a"], [], ["of-c"], ["of-d"], ["of-readers"]
    ]  # fmt: skip
    asked = {
        c.partition: [g.group_id for g in request_of(c).groups]
        for _, c in backend.coordinator_calls()
    }
    assert asked == {0: ["c"], 1: ["a", "d", "readers"], 2: ["b"]}


async def test_no_groups():
    backend = FakeBackend(image_of(group_topic()))
    response = await Client(backend).call(groups(), 8)
    assert response.groups == []
    assert backend.coordinator_calls() == []


async def test_several_groups_before_the_topic_exists():
    response = await Client(FakeBackend()).call(groups("a", "b"), 8)
    assert [(g.group_id, g.error_code) for g in response.groups] == [("a", LOADING), ("b", LOADING)]


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def fetch_two(version, topics=("hidden", "access_log")):
    """Of one group; None means all topics."""
    request = fetch(version)
    holder = request.groups[0] if version >= 8 else request
    if topics is None:
        holder.topics = None
    else:
        holder.topics = [type(holder.topics[0])(name, partition_indexes=[0]) for name in topics]
    return request


def seen(response, version):
    """(group's error, [(topic, partition, offset, error)])."""
    [holder] = response.groups if version >= 8 else [response]
    return holder.error_code, [
        (t.name, p.partition_index, p.committed_offset, p.error_code)
        for t in holder.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_topics_that_may_not_be_described_are_not_asked_for(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(fetched(version)))
    backend.deny((AclOperation.DESCRIBE, a_topic("hidden")))
    response = await Client(backend).call(fetch_two(version), version)
    assert seen(response, version) == (0, [("access_log", 0, 42, 0), ("hidden", 0, -1, DENIED)])
    [(_, call)] = backend.coordinator_calls()
    asked = request_of(call)
    [topic] = asked.groups[0].topics if version >= 8 else asked.topics
    assert topic.name == "access_log"


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_an_answer_about_all_topics_leaves_them_out(version):
    backend = FakeBackend(image_of(group_topic()))
    answer = fetched(version)
    holder = answer.groups[0] if version >= 8 else answer
    holder.topics = [*holder.topics, type(holder.topics[0])("hidden")]
    backend.coordinate(echo(answer))
    authorizer = backend.deny((AclOperation.DESCRIBE, a_topic("hidden")))
    response = await Client(backend).call(fetch_two(version, None), version)
    assert seen(response, version) == (0, [("access_log", 0, 42, 0)])
    resources = [resource for _, _, resource in authorizer.asked]
    assert resources == [a_group("readers"), a_topic("access_log"), a_topic("hidden")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_may_not_be_described_is_not_asked_for(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.deny((AclOperation.DESCRIBE, a_group("readers")))
    response = await Client(backend).call(fetch_two(version), version)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if version == 1:
        assert seen(response, 1) == (0, [("hidden", 0, -1, code), ("access_log", 0, -1, code)])
    else:
        assert seen(response, version) == (code, [])
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_error_of_the_call_is_told_instead_of_denied_topics(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    backend.deny((AclOperation.DESCRIBE, a_topic("hidden")))
    error, topics = seen(await Client(backend).call(fetch_two(version), version), version)
    if version == 1:
        assert topics == [("hidden", 0, -1, LOADING), ("access_log", 0, -1, LOADING)]
    else:
        assert (error, topics) == (LOADING, [])


async def test_other_groups_of_the_request_are_served():
    backend = FakeBackend(image_of(group_topic([1, 1, 1])))

    def answer(call):
        found = [
            codec.OffsetFetchResponseOffsetFetchResponseGroup(group.group_id)
            for group in request_of(call).groups
        ]
        return (0, codec.encode_response(codec.OffsetFetchResponse(groups=found), 8))

    backend.coordinate(answer)
    backend.deny((AclOperation.DESCRIBE, a_group("b")))
    response = await Client(backend).call(groups("a", "b", "c", "b"), 8)
    assert [(group.group_id, group.error_code) for group in response.groups] == [
        ("a", 0),
        ("b", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("c", 0),
        ("b", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]


async def test_topics_of_one_group_are_not_decoded_while_everything_is_allowed(monkeypatch):
    def decode(*_):
        raise AssertionError

    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(fetched(8)))
    client = Client(backend)
    body = codec.encode_request(fetch(8), 8)
    monkeypatch.setattr(codec, "decode_request", decode)
    assert await client.send(codec.API_KEY, 8, body) == codec.encode_response(fetched(8), 8)


def asked_by_id(group_id, *ids):
    return codec.OffsetFetchRequestOffsetFetchRequestGroup(
        group_id,
        "member",
        3,
        [codec.OffsetFetchRequestOffsetFetchRequestTopics("", one, [0, 1]) for one in ids],
    )


def with_offsets(*names):
    """A coordinator with offset 42 of each partition that it is asked for, or of these topics."""

    def answer(call):
        assert call.api_version == 9
        groups = []
        for group in request_of(call).groups:
            asked = [(t.name, t.partition_indexes) for t in group.topics or ()]
            if group.topics is None:
                asked = [(name, [0]) for name in names]
            groups.append(
                codec.OffsetFetchResponseOffsetFetchResponseGroup(
                    group.group_id,
                    [
                        codec.OffsetFetchResponseOffsetFetchResponseTopics(
                            name,
                            partitions=[
                                codec.OffsetFetchResponseOffsetFetchResponsePartitions(
                                    one, 42, metadata=name
                                )
                                for one in partitions
                            ],
                        )
                        for name, partitions in asked
                    ],
                )
            )
        return (0, codec.encode_response(codec.OffsetFetchResponse(groups=groups), 9))

    return answer


def offsets_of(group):
    assert [topic.name for topic in group.topics] == [""] * len(group.topics)
    return {
        (topic.topic_id, one.partition_index): (one.committed_offset, one.metadata, one.error_code)
        for topic in group.topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("count", [1, 2])
async def test_topics_by_id(count):
    theirs = topic("theirs", instance=InstanceId("team"))
    backend = FakeBackend(image_of(group_topic(), topic("access_log"), topic("orders"), theirs))
    backend.coordinate(with_offsets())
    access_log, orders = topic_id("access_log"), topic_id("orders")
    asked = [asked_by_id("readers", orders, theirs.topic_id, access_log)]
    asked += [asked_by_id("b", NO_TOPIC_ID, orders)][: count - 1]
    response = await Client(backend).call(codec.OffsetFetchRequest(groups=asked), 10)
    assert [(g.group_id, g.error_code) for g in response.groups] == [("readers", 0), ("b", 0)][
        :count
    ]
    unknown = (-1, "", ErrorCode.UNKNOWN_TOPIC_ID)
    assert offsets_of(response.groups[0]) == {
        (orders, 0): (42, "orders", 0),
        (orders, 1): (42, "orders", 0),
        (access_log, 0): (42, "access_log", 0),
        (access_log, 1): (42, "access_log", 0),
        (theirs.topic_id, 0): unknown,
        (theirs.topic_id, 1): unknown,
    }
    if count == 2:
        assert offsets_of(response.groups[1])[NO_TOPIC_ID, 1] == unknown
    for _, call in backend.coordinator_calls():
        for group in request_of(call).groups:
            assert (group.member_id, group.member_epoch) == ("member", 3)


async def test_all_topics_by_id_are_those_that_exist():
    backend = FakeBackend(image_of(group_topic(), topic("orders")))
    backend.coordinate(with_offsets("orders", "deleted"))
    response = await Client(backend).call(groups("readers"), 10)
    assert offsets_of(response.groups[0]) == {(topic_id("orders"), 0): (42, "orders", 0)}


async def test_errors_of_a_call_by_id_are_at_the_group():
    backend = FakeBackend(image_of(group_topic(), topic("orders")))
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    asked = codec.OffsetFetchRequest(groups=[asked_by_id("readers", topic_id("orders"))])
    response = await Client(backend).call(asked, 10)
    assert [(g.error_code, g.topics) for g in response.groups] == [(LOADING, [])]


async def test_topics_by_id_are_allowed_or_denied_by_their_names():
    backend = FakeBackend(image_of(group_topic(), topic("access_log"), topic("orders")))
    backend.coordinate(with_offsets("access_log", "orders"))
    backend.deny((AclOperation.DESCRIBE, a_topic("orders")))
    access_log, orders = topic_id("access_log"), topic_id("orders")
    asked = codec.OffsetFetchRequest(groups=[asked_by_id("readers", orders, access_log)])
    response = await Client(backend).call(asked, 10)
    found = offsets_of(response.groups[0])
    assert found[access_log, 0] == (42, "access_log", 0)
    assert found[orders, 0] == (-1, "", DENIED)
    everything = await Client(backend).call(groups("readers"), 10)
    assert list(offsets_of(everything.groups[0])) == [(access_log, 0)]
