import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchRequestOffsetFetchRequestTopic,
    OffsetFetchRequestOffsetFetchRequestTopics,
)
from highwater.partition.groups.handlers import offset_fetch
from tests.unit.partition.groups.handlers.exchange import Exchange


def exchange() -> Exchange:
    x = Exchange(9)
    x.d.commit({("t", 0): 10, ("t", 1): 11}, metadata="note", leader_epoch=4)
    x.d.commit({("u", 0): 12}, group="h")
    return x


def handle(x: Exchange, message, version: int, shard_of=None):
    body = offset_fetch.handle(shard_of or x.shard_of, x.call(message, version))
    assert isinstance(body, bytes)
    return x.decode(body, version)


def shown(topics):
    return [
        (t.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata)
        for t in topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_named_topics(version):
    topics = [OffsetFetchRequestOffsetFetchRequestTopic(name="t", partition_indexes=[1, 7])]
    message = OffsetFetchRequest(group_id="g", topics=topics, require_stable=version >= 7)
    answer = handle(exchange(), message, version)
    epoch = 4 if version >= 5 else -1
    assert answer.error_code == 0
    assert shown(answer.topics) == [("t", 1, 11, epoch, "note"), ("t", 7, -1, -1, "")]


@pytest.mark.parametrize("version", range(2, 8))
def test_all_topics(version):
    answer = handle(exchange(), OffsetFetchRequest(group_id="g", topics=None), version)
    assert [row[:3] for row in shown(answer.topics)] == [("t", 0, 10), ("t", 1, 11)]
    unknown = handle(exchange(), OffsetFetchRequest(group_id="?", topics=None), version)
    assert (unknown.error_code, list(unknown.topics)) == (0, [])


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups(version):
    x = exchange()

    def shard_of(group_id):
        return ErrorCode.NOT_COORDINATOR if group_id == "elsewhere" else x.d.shard

    named = [OffsetFetchRequestOffsetFetchRequestTopics(name="u", partition_indexes=[0])]
    message = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestOffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestOffsetFetchRequestGroup(group_id="h", topics=named),
            OffsetFetchRequestOffsetFetchRequestGroup(group_id="elsewhere", topics=None),
        ]
    )
    one, two, three = handle(x, message, version, shard_of).groups
    assert [row[:3] for row in shown(one.topics)] == [("t", 0, 10), ("t", 1, 11)]
    assert shown(two.topics) == [("u", 0, 12, -1, "")]
    assert three.error_code == ErrorCode.NOT_COORDINATOR


def test_the_only_group_has_another_coordinator():
    x = exchange()
    call = x.call(OffsetFetchRequest(group_id="g", topics=None), 5)
    refused = offset_fetch.handle(lambda group_id: ErrorCode.NOT_COORDINATOR, call)
    assert refused is ErrorCode.NOT_COORDINATOR
