"""Produce from frame to reply: the short way and the long way give the same answers."""

from dataclasses import replace

import pytest

from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.hop.append import OUTCOME_APPENDED, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import produce
from highwater.model.acl_operations import AclOperation
from highwater.model.cluster import GatewayListener, GatewayState
from highwater.model.ids import NO_TOPIC_ID, InstanceId, TopicId
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.gateway.core.shape_frames import produce_frame, topic_id_of
from tests.unit.gateway.data_plane.produce_world import world
from tests.unit.gateway.handlers.fakes import DenySome, a_topic
from tests.unit.hop.sinks import group_of


@pytest.fixture
def w():
    with world() as made:
        yield made


def unknown_topic(version):
    by_id = version >= 13
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


VERSIONS = pytest.mark.parametrize("version", [3, 5, 7, 8, 9, 11, 12, 13])


@VERSIONS
def test_the_second_request_takes_the_short_way_to_the_same_answer(w, version):
    for n in range(3):
        frame = produce_frame(version, correlation_id=n, partition=1, records=b"b%d" % n * 40)
        w.send(frame)
        route, acks, batch, sink, _, deadline_ms = w.link.batches[0]
        assert (route.partition, acks, batch) == (1, 1, b"b%d" % n * 40)
        assert deadline_ms == 31_000
        assert type(sink).__name__ == ("SinglePartitionReply" if n else "ManyPartitionsReply")
        w.link.answer(base_offset=70 + n)
        assert w.replies(version) == [(n, [("orders", 1, 0, 70 + n)])]


@VERSIONS
@pytest.mark.parametrize("learnt", [False, True])
def test_refusals_are_the_same_on_both_ways(w, version, learnt):
    if learnt:
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    zstd = bytearray(70)
    zstd[22] = 4
    wrong = {
        "partition": ({"partition": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "negative": ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "topic": ({"topic": "none"}, unknown_topic(version)),
        "leader": ({"partition": 2}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        "empty": ({"records": b""}, ErrorCode.INVALID_RECORD),
        "null": ({"records": None}, ErrorCode.INVALID_RECORD),
        "acks": ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
    }
    if version < 7:
        wrong["zstd"] = ({"records": bytes(zstd)}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    for changes, code in wrong.values():
        w.send(produce_frame(version, **changes))
        ((_, ((_, partition, found, offset),)),) = w.replies(version)
        assert (partition, found, offset) == (changes.get("partition", 0), code, -1)
    assert w.link.batches == []


@VERSIONS
@pytest.mark.parametrize("short", [False, True])
def test_failures_of_the_leader(w, version, short):
    for n in range(2 if short else 1):
        w.send(produce_frame(version, correlation_id=n))
        if short and n == 0:
            w.link.answer()
            w.replies(version)
    w.link.answer(-1, Failure(45, "a gap", leader=2, leader_epoch=9))
    assert w.replies(version) == [(int(short), [("orders", 0, 45, -1)])]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("short", [False, True])
def test_bad_records_are_listed(w, version, short):
    if short:
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    w.send(produce_frame(version))
    w.link.answer(-1, Failure(87, "two of them", record_errors=[(0, "no key"), (4, "no key")]))
    w.run()
    response = produce.decode_response(w.wire.sent.pop(), 9 if version >= 9 else 8, version)
    [answer] = response.responses[0].partition_responses
    assert answer.error_code == 87
    named = [(one.batch_index, one.batch_index_error_message) for one in answer.record_errors]
    if version < 8:
        assert (named, answer.error_message) == ([], None)
    else:
        assert (named, answer.error_message) == ([(0, "no key"), (4, "no key")], "two of them")


@VERSIONS
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("code", [19, 20, 7])
def test_not_enough_replicas_and_timeouts_reach_the_client(w, version, short, code):
    if short:
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    w.send(produce_frame(version, acks=-1))
    w.link.answer(-1, Failure(code, outcome=OUTCOME_APPENDED, leader=2, leader_epoch=9))
    assert w.replies(version) == [(1, [("orders", 0, code, -1)])]
    assert w.routing.ahead == {}


@VERSIONS
@pytest.mark.parametrize("short", [False, True])
def test_a_leader_whose_disk_fails_or_is_full(w, version, short):
    if short:
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    w.send(produce_frame(version))
    w.link.answer(-1, Failure(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
    known = version >= 4
    code = ErrorCode.KAFKA_STORAGE_ERROR if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert w.replies(version) == [(1, [("orders", 0, code, -1)])]
    assert w.routing.ahead == {}


@pytest.mark.parametrize("version", [9, 10, 11, 13])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(
    ("listener", "told"),
    [
        (DEFAULT_LISTENER, [(2, "gw", 9094)]),
        ("internal", [(2, "inside", 29094)]),
        ("no-such", []),
    ],
)
def test_a_refusal_names_the_leader_and_its_address(w, version, short, listener, told):
    """KIP-951: the node's leader, if it is newer than the image's; later never an older one."""
    w.session.client.peer = replace(w.peer, listener=listener)
    internal = GatewayListener(name="internal", host="inside", port=29092)
    gateway = GatewayState(
        gateway_id="g", host="gw", port=9092, single_port=False, listeners=(internal,)
    )
    image = replace(
        w.routing.image,
        nodes={2: node_state(2)},
        gateways={"g": gateway},
        node_gateways={2: "g"},
    )
    w.routing.apply(image)
    if short:
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    w.send(produce_frame(version))
    w.link.answer(-1, Failure(6, leader=2, leader_epoch=9))
    w.run()
    response = produce.decode_response(w.wire.sent.pop(), 9, version)
    ((found,),) = [t.partition_responses for t in response.responses]
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version < 10:
        assert found.current_leader is None
        assert w.routing.ahead == {}
        return
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 9)
    assert [(e.node_id, e.host, e.port) for e in response.node_endpoints] == told
    assert list(w.routing.ahead.values()) == [9]


@pytest.mark.parametrize("short", [False, True])
def test_acks_0_gets_no_answer_and_a_failure_closes_the_connection(w, short):
    if short:
        w.send(produce_frame(9, acks=0))
        w.link.answer()
    w.send(produce_frame(9, acks=0))
    w.link.answer()
    w.run()
    assert w.wire.sent == []
    assert w.wire.closed is None
    w.send(produce_frame(9, acks=0))
    w.link.answer(-1, Failure(6))
    assert w.wire.closed is not None


@pytest.mark.parametrize("version", [9, 13])
def test_many_partitions_are_answered_together(w, version):
    request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=100,
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                name=name,
                topic_id=topic_id_of(name),
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(index=i, records=b"b" * 70)
                    for i in partitions
                ],
            )
            for name, partitions in (("orders", (0, 1, 7)), ("other", (0,)))
        ],
    )
    frame = bytearray(
        encode_request_header(0, version, 5, "c") + produce.encode_request(request, version)
    )
    w.send(frame)
    assert len(w.link.batches) == 3
    w.link.answer(10)
    w.link.answer(-1, Failure(45))
    assert w.replies(version) == []
    w.link.answer(30, throttle_ms=50)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert w.replies(version) == [
        (
            5,
            [
                ("orders", 0, 0, 10),
                ("orders", 1, 45, -1),
                ("orders", 7, unknown, -1),
                ("other", 0, 0, 30),
            ],
        )
    ]
    assert w.muted == [50]


@pytest.mark.parametrize("version", [9, 13])
def test_the_shape_of_a_deleted_topic_does_not_match(w, version):
    w.send(produce_frame(version))
    w.link.answer()
    w.replies(version)
    w.routing.apply(image_of(topics=w.topics[1:]))
    w.send(produce_frame(version))
    ((_, ((_, _, code, _),)),) = w.replies(version)
    assert code == unknown_topic(version)


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("short", [False, True])
def test_a_topic_made_anew_is_another_one_by_id_and_the_same_by_name(w, version, short):
    for _ in range(2 if short else 1):
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    again = replace(w.topics[0], topic_id=TopicId(b"a newer topic id"))
    w.routing.apply(image_of(topics=[again]))
    w.send(produce_frame(version))
    if version < 13:
        assert [route.topic_id for route, *_ in w.link.batches] == [again.topic_id]
    else:
        assert w.link.batches == []
        ((_, ((_, _, code, offset),)),) = w.replies(version)
        assert (code, offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_batch_whose_topic_was_deleted_on_its_way(w, version, short, deleted):
    """Held batches and the nodes' answers say UNKNOWN_TOPIC_OR_PARTITION of any topic."""
    if short:
        w.send(produce_frame(version))
        w.link.answer()
        w.replies(version)
    w.send(produce_frame(version))
    if deleted:
        w.routing.apply(image_of(topics=w.topics[1:]))
    w.link.answer(-1, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it was deleted"))
    ((_, ((_, _, code, _),)),) = w.replies(version)
    by_name = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code == (unknown_topic(version) if deleted else by_name)
    assert w.shared.meters.produce.errors == {code: 1}


def test_ids_of_other_instances_are_unknown(w):
    theirs = replace(topic_state("theirs", [(1,)]), instance=InstanceId("team"))
    w.routing.apply(image_of(topics=[theirs, *w.topics]))
    w.send(produce_frame(13, topic="theirs"))
    ((_, ((_, _, code, _),)),) = w.replies(13)
    assert code == ErrorCode.UNKNOWN_TOPIC_ID


def test_no_id_at_all_is_unknown(w):
    frame = produce_frame(13)
    at = frame.find(topic_id_of("orders"))
    frame[at : at + 16] = NO_TOPIC_ID
    w.send(frame)
    ((_, ((_, _, code, _),)),) = w.replies(13)
    assert code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [0, 2, 14])
def test_versions_that_are_not_served_close_the_connection(w, version):
    frame = produce_frame(9)
    frame[2:4] = version.to_bytes(2, "big")
    w.send(frame)
    assert w.wire.closed is not None


def test_a_truncated_request_closes_the_connection(w):
    w.send(produce_frame(9)[:-5])
    assert "malformed" in w.wire.closed


def test_a_topic_without_partitions_beside_one_with_some(w):
    request = produce.ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            produce.ProduceRequestTopicProduceData(name="other"),
            produce.ProduceRequestTopicProduceData(
                name="orders",
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(index=0, records=bytes(100))
                ],
            ),
        ],
    )
    header = encode_request_header(produce.API_KEY, 9, 4, "c")
    w.send(bytearray(header + produce.encode_request(request, 9)))
    w.link.answer()
    ((correlation_id, partitions),) = w.replies(9)
    assert correlation_id == 4
    assert [(name, index) for name, index, _, _ in partitions] == [("orders", 0)]


@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("acks", [0, 1])
def test_a_reply_that_cannot_be_encoded_releases_its_memory(w, learnt, acks):
    w.failed = []
    w.reply_failed = lambda session, error: (
        w.failed.append(error),
        w.wire.close("the reply could not be made"),
    )
    if learnt:
        w.send(produce_frame(9, acks=acks))
        w.link.answer()
        w.run()
    w.send(produce_frame(9, acks=acks))
    _, _, _, sink, index, _ = w.link.batches.pop()
    group = group_of(b"", sink=sink)
    group.indexes = [index]
    group.throttle_ms = "no number"
    w.wire.unmute_after = lambda ms: ms + 1
    group.complete([0])
    assert len(w.failed) == 1
    assert w.wire.closed == "the reply could not be made"
    assert (w.session.outstanding, w.session.in_flight_bytes, w.shared.budget.used) == (0, 0, 0)


@pytest.mark.parametrize(
    ("timeout_ms", "deadline_ms"),
    [(-1, 2_000), (0, 2_000), (30_000, 31_000), (2**31 - 1, 301_000)],
)
def test_the_deadline_is_limited_whatever_the_clients_timeout(w, timeout_ms, deadline_ms):
    for _ in range(2):
        w.send(produce_frame(9, timeout_ms=timeout_ms))
        assert w.link.batches[0][-1] == deadline_ms
        w.link.answer()


@pytest.mark.parametrize("acks", [0, 1])
def test_both_ways_are_metered(w, acks):
    sent = 0
    for n in range(3):
        frame = produce_frame(9, correlation_id=n, acks=acks)
        sent += len(frame)
        w.send(frame)
        w.link.answer()
        w.run()
    meter = w.shared.meters.produce
    assert (meter.requests, meter.bytes_in, sum(meter.buckets)) == (3, sent, 3)
    assert meter.bytes_out == sum(map(len, w.wire.sent))
    assert meter.errors == {}


@pytest.mark.parametrize("acks", [0, 1])
def test_every_failed_partition_is_counted_by_its_code(w, acks):
    # With acks=0 the first failure closes the connection.
    for n in range(3 if acks else 2):
        w.send(produce_frame(9, correlation_id=n, acks=acks))
        if n:
            w.link.answer(-1, Failure(45, "a gap"))
        else:
            w.link.answer()
        w.run()
    assert w.shared.meters.produce.errors == {45: 2 if acks else 1}
    if acks:
        w.send(produce_frame(9, partition=3))
        assert w.shared.meters.produce.errors == {45: 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}


def test_requests_that_close_the_connection_count_as_refused(w):
    w.send(produce_frame(9)[:20])
    assert w.shared.meters.refused == 1
    assert w.shared.meters.produce.requests == 0


@VERSIONS
@pytest.mark.parametrize("acks", [1, 0])
def test_a_denied_topic_is_refused_each_time_and_nothing_is_sent(w, version, acks):
    authorizer = DenySome((AclOperation.WRITE, a_topic("orders")))
    w.produce = ProducePath(authorizer).start
    for n in range(3):
        w.send(produce_frame(version, correlation_id=n, acks=acks, records=bytes(70)))
        assert w.link.batches == []
        assert w.session.tail is None, "no shape of it is remembered"
        assert len(authorizer.asked) == n + 1
        if acks == 0:
            w.run()
            assert w.wire.closed is not None
            return
        assert w.replies(version) == [(n, [("orders", 0, 29, -1)])]


@VERSIONS
def test_an_allowed_topic_is_asked_for_once(w, version):
    authorizer = DenySome((AclOperation.WRITE, a_topic("other")))
    w.produce = ProducePath(authorizer).start
    for n in range(3):
        w.send(produce_frame(version, correlation_id=n, records=bytes(70)))
        w.link.answer(base_offset=70 + n)
        assert w.replies(version) == [(n, [("orders", 0, 0, 70 + n)])]
    assert [one for _, _, one in authorizer.asked] == [a_topic("orders")]
    w.send(produce_frame(version, topic="other", records=bytes(70)))
    assert w.replies(version) == [(1, [("other", 0, 29, -1)])]


@VERSIONS
def test_what_is_allowed_in_the_same_request_is_appended(w, version):
    w.produce = ProducePath(DenySome((AclOperation.WRITE, a_topic("other")))).start
    request = produce.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                name=name,
                topic_id=topic_id_of(name),
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(index=0, records=bytes(70))
                ],
            )
            for name in ("other", "orders")
        ],
    )
    header = encode_request_header(0, version, 8, "client")
    w.send(bytearray(header + produce.encode_request(request, version)))
    assert len(w.link.batches) == 1
    w.link.answer(base_offset=70)
    assert w.replies(version) == [(8, [("other", 0, 29, -1), ("orders", 0, 0, 70)])]
