import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_fetch as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    echo,
    group_topic,
    image_of,
    refuse,
    request_of,
)

VERSIONS = range(1, 9)


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
async def test_errors_of_the_call_go_where_the_version_has_a_field(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    response = await Client(backend).call(fetch(version), version)
    if version >= 8:
        assert [(g.group_id, g.error_code) for g in response.groups] == [("readers", 16)]
    elif version >= 2:
        assert (response.error_code, list(response.topics)) == (16, [])
    else:
        [topic] = response.topics
        assert [
            (p.partition_index, p.committed_offset, p.error_code) for p in topic.partitions
        ] == [
            (0, -1, 16),
            (1, -1, 16),
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
    assert [(g.group_id, g.error_code) for g in response.groups] == [("a", 15), ("b", 15)]


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
        assert topics == [("hidden", 0, -1, 16), ("access_log", 0, -1, 16)]
    else:
        assert (error, topics) == (16, [])


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
