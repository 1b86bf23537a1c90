"""Fetch of topics by their ids (KIP-516), and what versions 13 to 18 add."""

from dataclasses import replace

import pytest

from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from highwater.model.acl_operations import AclOperation
from highwater.model.cluster import GatewayState
from highwater.model.ids import NO_TOPIC_ID, InstanceId, TopicId
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.gateway.core.shape_frames import fetch_frame, topic_id_of
from tests.unit.gateway.data_plane.fetch_world import world
from tests.unit.gateway.handlers.fakes import DenySome, a_topic

VERSIONS = pytest.mark.parametrize("version", range(13, 19))
WAYS = pytest.mark.parametrize("short", [False, True])


@pytest.fixture
def w():
    with world() as made:
        yield made


def learnt(w, version):
    """The next frame of this kind takes the short way."""
    w.send(fetch_frame(version))
    w.links[1].answer(FetchedPartition(0, 1, 1, 0))
    w.reply(version)
    assert w.session.fetch_shape is not None


def answered(w, version):
    """The decoded response."""
    while w.due:
        w.due.pop(0)()
    frame = b"".join(w.wire.sent)
    w.wire.sent.clear()
    return fetch.decode_response(frame, 9, version)


@VERSIONS
@WAYS
def test_replies_name_the_topic_by_its_id(w, version, short):
    if short:
        learnt(w, version)
    w.send(fetch_frame(version, fetch_offset=3))
    w.links[1].answer(FetchedPartition(0, 9, 9, 0, memoryview(b"records"), 7))
    (topic,) = answered(w, version).responses
    assert (topic.topic, topic.topic_id) == ("", topic_id_of("orders"))
    (part,) = topic.partitions
    assert (part.error_code, part.high_watermark, bytes(part.records)) == (0, 9, b"records")


@VERSIONS
@WAYS
@pytest.mark.parametrize("remade", [False, True])
def test_the_id_of_a_deleted_topic_is_unknown_also_if_its_name_is_there_again(
    w, version, short, remade
):
    if short:
        learnt(w, version)
    again = replace(topic_state("orders", [(1,)]), topic_id=TopicId(b"a newer topic id"))
    w.routing.apply(image_of(topics=[again] if remade else []))
    w.send(fetch_frame(version))
    assert w.links[1].works == []
    assert w.reply(version)[1] == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, b"")]


@pytest.mark.parametrize("version", [12, 13])
@WAYS
def test_a_topic_that_is_deleted_while_its_fetch_waits(w, version, short):
    if short:
        learnt(w, version)
    w.send(fetch_frame(version))
    w.routing.apply(image_of())
    w.links[1].answer(FetchedPartition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    by_id = version >= 13
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert w.reply(version)[1] == [(0, code, -1, b"")]
    assert w.shared.meters.fetch.errors == {code: 1}


@WAYS
def test_a_partition_that_a_topic_does_not_have_is_no_unknown_id(w, short):
    if short:
        learnt(w, 13)
    w.send(fetch_frame(13, partition=4))
    assert w.reply(13)[1] == [(4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, b"")]


def test_ids_of_other_instances_and_no_ids_are_unknown(w):
    theirs = replace(topic_state("theirs", [(1,)]), instance=InstanceId("team"))
    w.routing.apply(image_of(topics=[theirs]))
    w.send(fetch_frame(13, topic="theirs"))
    assert w.reply(13)[1] == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, b"")]
    frame = fetch_frame(13)
    at = frame.find(topic_id_of("orders"))
    frame[at : at + 16] = NO_TOPIC_ID
    w.send(frame)
    assert w.reply(13)[1] == [(0, ErrorCode.UNKNOWN_TOPIC_ID, -1, b"")]


def test_known_and_unknown_ids_beside_one_another(w):
    request = fetch.FetchRequest(
        max_wait_ms=500,
        max_bytes=1000,
        topics=[
            fetch.FetchRequestFetchTopic(
                topic_id=topic_id, partitions=[fetch.FetchRequestFetchPartition(partition=0)]
            )
            for topic_id in (b"no such topic id", topic_id_of("orders"))
        ],
    )
    w.send(bytearray(encode_request_header(1, 18, 5, "c") + fetch.encode_request(request, 18)))
    assert w.links[1].works[0].max_wait_ms == 0, "an error does not wait"
    w.links[1].answer(FetchedPartition(0, 9, 9, 0))
    assert [
        (topic.topic_id, topic.partitions[0].error_code) for topic in answered(w, 18).responses
    ] == [(b"no such topic id", ErrorCode.UNKNOWN_TOPIC_ID), (topic_id_of("orders"), 0)]


@VERSIONS
@WAYS
def test_a_refusal_names_the_leader_and_from_16_on_its_address(w, version, short):
    """KIP-951."""
    gateway = GatewayState(gateway_id="g", host="gw", port=9092, single_port=False)
    w.routing.apply(
        replace(
            w.routing.image,
            nodes={2: node_state(2)},
            gateways={"g": gateway},
            node_gateways={2: "g"},
        )
    )
    if short:
        learnt(w, version)
    w.send(fetch_frame(version))
    refused = FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    refused.leader, refused.leader_epoch = 2, 9
    w.links[1].answer(refused)
    response = answered(w, version)
    leader = response.responses[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 9)
    told = [(one.node_id, one.host, one.port) for one in response.node_endpoints]
    assert told == ([(2, "gw", 9094)] if version >= 16 else [])


@pytest.mark.parametrize("version", [14, 15, 18])
def test_a_follower_is_refused(w, version):
    """From version 15 on it says who it is in a tagged field (KIP-903)."""
    by_tag = version >= 15
    request = fetch.FetchRequest(
        replica_id=-1 if by_tag else 2,
        replica_state=fetch.FetchRequestReplicaState(2, 5) if by_tag else None,
        max_wait_ms=500,
        topics=[
            fetch.FetchRequestFetchTopic(
                topic_id=topic_id_of("orders"),
                partitions=[fetch.FetchRequestFetchPartition(partition=0)],
            )
        ],
    )
    header = encode_request_header(1, version, 5, "c")
    w.send(bytearray(header + fetch.encode_request(request, version)))
    assert w.reply(version)[1] == [(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, b"")]
    assert w.session.fetch_shape is None


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_may_not_be_read(w, version):
    w.authorize(DenySome((AclOperation.READ, a_topic("orders"))))
    for _ in range(2):
        w.send(fetch_frame(version))
        assert w.reply(version)[1] == [(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, b"")]
    assert w.links[1].works == []
    w.send(fetch_frame(version, topic="none"))
    by_id = version >= 13
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert w.reply(version)[1] == [(0, code, -1, b"")]
