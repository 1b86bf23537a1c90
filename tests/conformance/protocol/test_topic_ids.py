"""Topics by id (KIP-516): known, unknown, and those of topics that were made anew."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_commit, offset_fetch
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.model.ids import NO_TOPIC_ID
from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.protocol.requests import (
    batch,
    batches_of,
    fetch,
    fetch_request,
    produce,
    produce_request,
    topic_id,
)
from tests.conformance.protocol.test_groups import find_coordinator
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

NOWHERE = b"no such topic id"


def metadata_by_id(connection: RawConnection, *ids: bytes, version: int = 12) -> Any:
    topics = [MetadataRequestMetadataRequestTopic(one, None) for one in ids]
    return connection.ask(MetadataRequest(topics=topics), version)


def produce_by_id(connection: RawConnection, one: bytes, value: bytes) -> Any:
    request = produce_request("", {0: batch([value])}, by_id=one)
    return only(only(connection.ask(request, 13).responses).partition_responses)


def fetch_by_id(connection: RawConnection, one: bytes, version: int = 13) -> Any:
    request = fetch_request("", {0: 0}, by_id=one)
    return only(only(connection.ask(request, version).responses).partitions)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id(connection: RawConnection, made_topic: str, version: int) -> None:
    known = topic_id(connection, made_topic)
    reply = metadata_by_id(connection, known, NOWHERE, version=version)
    assert {topic.topic_id: (topic.error_code, topic.name) for topic in reply.topics} == {
        known: (ErrorCode.NONE, made_topic),
        NOWHERE: (ErrorCode.UNKNOWN_TOPIC_ID, None),
    }


def test_with_an_id_names_are_ignored(connection: RawConnection, made_topic: str) -> None:
    topics = [
        MetadataRequestMetadataRequestTopic(NOWHERE, None),
        MetadataRequestMetadataRequestTopic(NO_TOPIC_ID, made_topic),
    ]
    reply = connection.ask(MetadataRequest(topics=topics), 12)
    assert [topic.error_code for topic in reply.topics] == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("by_name", [False, True])
def test_versions_10_and_11_take_no_ids(
    connection: RawConnection, made_topic: str, version: int, by_name: bool
) -> None:
    one = MetadataRequestMetadataRequestTopic(
        topic_id(connection, made_topic), made_topic if by_name else None
    )
    topic = only(connection.ask(MetadataRequest(topics=[one]), version).topics)
    assert topic.error_code == ErrorCode.INVALID_REQUEST
    assert topic.name == (made_topic if by_name else "")


@pytest.mark.parametrize("one", [NOWHERE, NO_TOPIC_ID], ids=["unknown", "none"])
def test_produce_and_fetch_by_an_unknown_id(connection: RawConnection, one: bytes) -> None:
    part = produce_by_id(connection, one, b"x")
    assert (part.error_code, part.base_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    for version in range(13, 19):
        found = fetch_by_id(connection, one, version)
        assert (found.error_code, found.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_partitions_that_a_topic_does_not_have(connection: RawConnection, made_topic: str) -> None:
    known = topic_id(connection, made_topic)
    request = produce_request("", {7: batch([b"x"])}, by_id=known)
    part = only(only(connection.ask(request, 13).responses).partition_responses)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = only(
        only(connection.ask(fetch_request("", {7: 0}, by_id=known), 13).responses).partitions
    )
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.core
def test_a_topic_made_anew_is_another_one(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    former = topic_id(connection, made_topic)
    # Twice each: the second request has the shape of the first.
    for value in (b"old", b"older"):
        assert produce_by_id(connection, former, value).error_code == ErrorCode.NONE
        assert len(batches_of(fetch_by_id(connection, former))) > 0
    gone = DeleteTopicsRequestDeleteTopicState(name=None, topic_id=former)
    reply = connection.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=10_000), 6)
    assert only(reply.responses).error_code == ErrorCode.NONE
    wait_until(
        lambda: (
            only(metadata_by_id(connection, former).topics).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        ),
        timeout_s=CLIENT_TIMEOUT_S,
        what="the topic is gone",
    )
    make_topic(cluster.bootstrap, made_topic, partitions=2)
    present = topic_id(connection, made_topic)
    assert present not in (former, NO_TOPIC_ID)
    for _ in range(2):
        assert produce_by_id(connection, former, b"lost").error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert fetch_by_id(connection, former).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    part = produce(connection, made_topic, batch([b"new"]), version=13)
    assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 0)
    assert fetch(connection, made_topic, 0, version=18).high_watermark == 1


def commit_by_id(connection: RawConnection, group: str, *ids: bytes, generation: int = -1) -> Any:
    topics = [
        offset_commit.OffsetCommitRequestOffsetCommitRequestTopic(
            topic_id=one,
            partitions=[
                offset_commit.OffsetCommitRequestOffsetCommitRequestPartition(
                    partition, 42, committed_metadata="note"
                )
                for partition in (0, 9)
            ],
        )
        for one in ids
    ]
    request = offset_commit.OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation, topics=topics
    )
    return connection.ask(request, 10)


def codes(reply: Any) -> dict[tuple[bytes, int], int]:
    return {
        (topic.topic_id, part.partition_index): part.error_code
        for topic in reply.topics
        for part in topic.partitions
    }


@pytest.mark.core
def test_offsets_by_id(
    cluster: Cluster, connection: RawConnection, made_topic: str, group: str
) -> None:
    find_coordinator(connection, group)
    known = topic_id(connection, made_topic)
    loading = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
    loading.add(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    wait_until(
        lambda: not loading & set(codes(commit_by_id(connection, group, known)).values()),
        timeout_s=CLIENT_TIMEOUT_S,
        what="the coordinator",
    )
    assert codes(commit_by_id(connection, group, NOWHERE, known)) == {
        (NOWHERE, 0): ErrorCode.UNKNOWN_TOPIC_ID,
        (NOWHERE, 9): ErrorCode.UNKNOWN_TOPIC_ID,
        (known, 0): ErrorCode.NONE,
        (known, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    wanted = [
        offset_fetch.OffsetFetchRequestOffsetFetchRequestTopics(
            topic_id=one, partition_indexes=[0, 1]
        )
        for one in (known, NOWHERE)
    ]
    for topics in (wanted, None):
        asked = offset_fetch.OffsetFetchRequestOffsetFetchRequestGroup(group, topics=topics)
        reply = connection.ask(offset_fetch.OffsetFetchRequest(groups=[asked]), 10)
        answered = only(reply.groups)
        assert answered.error_code == ErrorCode.NONE
        found = {
            (topic.topic_id, part.partition_index): (part.committed_offset, part.error_code)
            for topic in answered.topics
            for part in topic.partitions
        }
        assert found[known, 0] == (42, ErrorCode.NONE)
        if topics is None:
            assert found == {(known, 0): (42, ErrorCode.NONE)}
        else:
            assert found[known, 1] == (-1, ErrorCode.NONE)
            assert found[NOWHERE, 0] == found[NOWHERE, 1] == (-1, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_member_of_a_group_that_does_not_exist(
    connection: RawConnection, made_topic: str, group: str
) -> None:
    find_coordinator(connection, group)
    known = topic_id(connection, made_topic)
    loading = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
    loading.add(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def code() -> int:
        return codes(commit_by_id(connection, group, known, generation=3))[known, 0]

    wait_until(lambda: code() not in loading, timeout_s=CLIENT_TIMEOUT_S, what="the coordinator")
    assert code() == ErrorCode.GROUP_ID_NOT_FOUND
