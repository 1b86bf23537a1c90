"""Fetch from frame to reply: the short way and the long way."""

import gc

import pytest

from highwater.gateway.core.fetch_limits import RESPONSE_BYTES_MAX
from highwater.hop.fetch import SMALL_RANGE, FetchedPartition, FetchWork
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.core.shape_frames import fetch_frame
from tests.unit.gateway.data_plane.fetch_world import stored, two_nodes, world
from tests.unit.gateway.handlers.fakes import DenySome, a_topic
from tests.unit.gateway.wires import Segment


@pytest.fixture
def w():
    with world() as made:
        yield made


@pytest.fixture
def segment(tmp_path):
    with Segment(tmp_path / "log", 1 << 20) as made:
        yield made


VERSIONS = pytest.mark.parametrize("version", [4, 5, 7, 9, 11, 12, 13, 15, 18])


@VERSIONS
@pytest.mark.parametrize("nbytes", [0, 1, 1000, SMALL_RANGE, SMALL_RANGE + 1])
@pytest.mark.parametrize("kind", ["file", "view"])
def test_both_ways_give_the_same_reply(w, segment, version, nbytes, kind):
    for n in range(3):
        w.send(fetch_frame(version, correlation_id=n, partition=3, fetch_offset=50 + n))
        (work,) = w.links[1].works
        ((_, partition, epoch, offset, last_epoch, max_bytes),) = work.partitions
        assert (partition, epoch, offset, last_epoch, max_bytes) == (3, -1, 50 + n, -1, 1 << 20)
        assert (work.max_wait_ms, work.min_bytes, work.max_bytes) == (500, 1, 50 << 20)
        part = stored(segment, n, nbytes)
        records = part if kind == "file" else memoryview(part.data)
        w.links[1].answer(FetchedPartition(0, 99, 99, 0, records if nbytes else b"", nbytes))
        assert (w.session.fetch_shape is None) is False
        assert w.reply(version) == (n, [(3, 0, 99, segment.data[n : n + nbytes])])
        if kind == "file" and nbytes:
            assert part.released == 1


def test_nodes_read_into_the_memory_of_replies(w):
    """On both ways; answers of several nodes wait for one another, and should hold none."""
    for n in range(2):
        w.send(fetch_frame(12, correlation_id=n))
        assert w.links[1].works[0].memory is w.shared.budget
        w.links[1].answer(FetchedPartition(0, 9, 9, 0, bytearray(b"records"), 7))
        assert w.reply(12) == (n, [(0, 0, 9, b"records")])
    w.send(two_nodes())
    for node in (1, 2):
        assert w.links[node].works[0].memory is None
        w.links[node].answer(
            *[FetchedPartition(0, 9, 9, 0) for _ in w.links[node].works[0].partitions]
        )
    for node in (1, 2):
        assert w.links[node].works[0].memory is None, "asked again, to wait"


@pytest.mark.parametrize("ways", [1, 2])
def test_small_ranges_are_not_read_while_clients_do_not_read_their_replies(w, segment, ways):
    w.shared.budget.hold_replies(w.shared.budget.replies_max)
    for n in range(ways):
        w.send(fetch_frame(12, correlation_id=n))
        w.links[1].answer(FetchedPartition(0, 9, 9, 0, stored(segment, 0, 100), 100))
        while w.due:
            w.due.pop(0)()
        assert any(type(part) is not bytes for part in w.wire.sent)
        assert w.reply(12) == (n, [(0, 0, 9, segment.data[:100])])


@VERSIONS
def test_errors_and_diverging_epochs_on_both_ways(w, version):
    for n in range(2):
        w.send(fetch_frame(version, correlation_id=n))
        w.links[1].answer(FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE))
        assert w.reply(version) == (n, [(0, ErrorCode.OFFSET_OUT_OF_RANGE, -1, b"")])
        w.send(fetch_frame(version, correlation_id=n))
        diverging = FetchedPartition(0, 9, 9, 0)
        diverging.diverging_epoch, diverging.diverging_end_offset = 3, 5
        w.links[1].answer(diverging)
        assert w.reply(version) == (n, [(0, 0, 9, b"")])


@VERSIONS
@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, 9), (2, 9)),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, (2, 3), (1, 5)),
        (ErrorCode.FENCED_LEADER_EPOCH, (-1, -1), (1, 5)),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, (-1, -1), None),
        (ErrorCode.OFFSET_NOT_AVAILABLE, (-1, -1), None),
    ],
)
def test_fencing_reaches_the_client_with_the_current_leader(w, version, code, said, told):
    """On both ways. Only the leader checks the client's epoch (KIP-320), the gateway does not."""
    for n in range(2):
        w.send(fetch_frame(version, correlation_id=n))
        refused = FetchedPartition(code)
        refused.leader, refused.leader_epoch = said
        w.links[1].answer(refused)
        while w.due:
            w.due.pop(0)()
        frame = b"".join(w.wire.sent)
        w.wire.sent.clear()
        response = fetch.decode_response(frame, 9 if version >= 12 else 8, version)
        ((found,),) = [t.partitions for t in response.responses]
        if code == ErrorCode.OFFSET_NOT_AVAILABLE and version < 11:
            assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            assert found.error_code == code
        leader = found.current_leader
        if version < 12 or told is None:
            assert leader is None
        else:
            assert (leader.leader_id, leader.leader_epoch) == told
    newer = version >= 12 and told == (2, 9)
    assert list(w.routing.ahead.values()) == ([9] if newer else [])


@VERSIONS
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"partition": 4}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 2}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"topic": "orderz"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_errors_that_the_gateway_itself_answers(w, version, changes, code):
    if "topic" in changes and version >= 13:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    for _ in range(2):
        w.send(fetch_frame(version, **changes))
        ((partition, found, _, _),) = w.reply(version)[1]
        assert (partition, found) == (changes.get("partition", 0), code)
        w.send(fetch_frame(version))
        w.links[1].answer(FetchedPartition(0, 1, 1, 0))
        w.reply(version)


@pytest.mark.parametrize("version", [4, 12])
def test_min_bytes_is_limited_to_max_bytes(w, version):
    """As in Kafka's `KafkaApis.handleFetchRequest`; librdkafka refuses such settings itself."""
    for n in range(2):
        w.send(fetch_frame(version, correlation_id=n, min_bytes=5000, max_bytes=1000))
        (work,) = w.links[1].works
        assert (work.min_bytes, work.max_bytes) == (1000, 1000)
        w.links[1].answer(FetchedPartition(0, 1, 1, 0))
        w.reply(version)
    w.send(fetch_frame(version, min_bytes=2**31 - 1, max_bytes=2**31 - 1))
    (work,) = w.links[1].works
    assert work.min_bytes == work.max_bytes == RESPONSE_BYTES_MAX


def fetch_objects():
    return [found for found in gc.get_objects() if isinstance(found, FetchedPartition | FetchWork)]


@pytest.mark.parametrize("nodes", [1, 2])
def test_fetched_records_are_freed_when_their_reply_is_sent(w, nodes):
    """At once, without a run of the garbage collector, which comes many replies later."""
    gc.collect()
    others = {id(found) for found in fetch_objects()}
    """Objects that other tests have left."""
    gc.disable()
    try:
        for n in range(2):  # One node's second reply goes the short way.
            w.send(fetch_frame(12, correlation_id=n) if nodes == 1 else two_nodes())
            for link in w.links.values():
                for count in [len(work.partitions) for work in link.works]:
                    link.answer(
                        *(FetchedPartition(0, 9, 9, 0, memoryview(b"x"), 1) for _ in range(count))
                    )
            w.reply(12 if nodes == 1 else 11)
            assert [found for found in fetch_objects() if id(found) not in others] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("short", [False, True])
def test_a_reply_that_cannot_be_made_ends_its_connection_only(w, segment, short):
    w.failed = []
    w.reply_failed = lambda session, error: (
        w.failed.append(error),
        w.wire.close("the reply could not be made"),
    )
    if short:
        w.send(fetch_frame(12))
        w.links[1].answer(FetchedPartition(0, 1, 1, 0))
        w.reply(12)
    w.send(fetch_frame(12, fetch_offset=7))
    part = stored(segment, 0, 70_000)
    w.links[1].answer(FetchedPartition(0, "no number", 1, 0, part, 70_000))
    assert (len(w.failed), part.released) == (1, 1)
    assert w.wire.closed == "the reply could not be made"
    assert (w.session.outstanding, w.shared.budget.used) == (0, 0)


@pytest.mark.parametrize("short", [False, True])
def test_a_client_disconnects_during_a_fetch(w, short):
    if short:
        w.send(fetch_frame(12))
        w.links[1].answer(FetchedPartition(0, 1, 1, 0))
        w.reply(12)
    w.send(fetch_frame(12, fetch_offset=7))
    work = w.links[1].works[0]
    w.session.connection_closed()
    assert w.links[1].cancelled == [work]


def test_a_follower_is_refused(w):
    frame = fetch_frame(11)
    frame[16:20] = (2).to_bytes(4, "big")
    w.send(frame)
    assert w.reply(11)[1][0][1] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_malformed_request_closes_the_connection(w):
    w.send(fetch_frame(12)[:-3])
    assert "malformed" in w.wire.closed


@pytest.mark.parametrize("version", [0, 3, 19])
def test_versions_that_are_not_served_close_the_connection(w, version):
    frame = fetch_frame(12)
    frame[2:4] = version.to_bytes(2, "big")
    w.send(frame)
    assert w.wire.closed is not None


def _sessionless(frame_version, request):
    header = encode_request_header(fetch.API_KEY, frame_version, 5, "c")
    return bytearray(header + fetch.encode_request(request, frame_version))


def _asking(*topics, **fields):
    return fetch.FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1000,
        topics=[
            fetch.FetchRequestFetchTopic(
                topic=name,
                partitions=[fetch.FetchRequestFetchPartition(partition=p) for p in partitions],
            )
            for name, partitions in topics
        ],
        **fields,
    )


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_an_unknown_fetch_session_is_not_found(w, version):
    request = _asking(("orders", [0]), session_id=77, session_epoch=3)
    w.send(_sessionless(version, request))
    while w.due:
        w.due.pop(0)()
    (frame,) = w.wire.sent
    w.wire.sent.clear()
    response = fetch.decode_response(frame, 9 if version >= 12 else 8, version)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert w.links[1].works == []


def test_a_topic_without_partitions_beside_one_with_some(w):
    w.send(_sessionless(11, _asking(("none", []), ("orders", [0]))))
    w.links[1].answer(FetchedPartition(0, 1, 1, 0))
    assert w.reply(11)[1] == [(0, 0, 1, b"")]


def test_an_isolation_level_that_does_not_exist_reads_uncommitted(w):
    w.send(_sessionless(11, _asking(("orders", [0]), isolation_level=-7)))
    assert w.links[1].works[0].isolation_level == 0
    w.links[1].answer(FetchedPartition(0, 1, 1, 0))
    w.reply(11)


@pytest.mark.parametrize("nbytes", [0, 1000, SMALL_RANGE + 1])
def test_both_ways_are_metered(w, segment, nbytes):
    received = sent = 0
    for n in range(3):
        frame = fetch_frame(12, correlation_id=n)
        received += len(frame)
        w.send(frame)
        part = stored(segment, 0, nbytes) if nbytes else b""
        w.links[1].answer(FetchedPartition(0, 9, 9, 0, part, nbytes))
        while w.due:
            w.due.pop(0)()
        sent += sum(len(p) if type(p) is bytes else p.length for p in w.wire.sent)
        w.reply(12)
    meter = w.shared.meters.fetch
    assert (meter.requests, meter.bytes_in, sum(meter.buckets)) == (3, received, 3)
    assert meter.bytes_out == sent
    assert meter.errors == {}


def test_every_failed_partition_is_counted_by_its_code(w):
    for n in range(3):
        w.send(fetch_frame(12, correlation_id=n))
        w.links[1].answer(FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE))
    w.send(fetch_frame(12, partition=77))
    assert w.shared.meters.fetch.errors == {
        ErrorCode.OFFSET_OUT_OF_RANGE: 3,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1,
    }


@VERSIONS
def test_a_denied_topic_is_refused_each_time_and_no_node_is_asked(w, version):
    authorizer = DenySome((AclOperation.READ, a_topic("orders")), (AclOperation.READ, a_topic("x")))
    w.authorize(authorizer)
    # An unknown id has no name to be asked for (`test_fetch_path_by_id`).
    names = ["orders", "orders", "x"] if version < 13 else ["orders", "orders", "orders"]
    for n, name in enumerate(names):
        w.send(fetch_frame(version, correlation_id=n, topic=name))
        assert not any(link.works for link in w.links.values())
        assert w.session.fetch_shape is None, "no shape of it is remembered"
        assert w.reply(version) == (n, [(0, 29, -1, b"")])
    assert len(authorizer.asked) == 3


@VERSIONS
def test_an_allowed_topic_is_asked_for_once(w, version):
    authorizer = DenySome()
    w.authorize(authorizer)
    for n in range(3):
        w.send(fetch_frame(version, correlation_id=n, fetch_offset=50 + n))
        w.links[1].answer(FetchedPartition(0, 60, 60, 0))
        assert w.reply(version) == (n, [(0, 0, 60, b"")])
    assert [one for _, _, one in authorizer.asked] == [a_topic("orders")]


def test_what_is_allowed_in_the_same_request_is_fetched(w):
    w.authorize(DenySome((AclOperation.READ, a_topic("hidden"))))
    request = fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            fetch.FetchRequestFetchTopic(
                topic=name,
                partitions=[fetch.FetchRequestFetchPartition(partition_max_bytes=1000)],
            )
            for name in ("hidden", "orders")
        ],
    )
    w.send(bytearray(encode_request_header(1, 11, 5, "c") + fetch.encode_request(request, 11)))
    (work,) = w.links[1].works
    assert (len(work.partitions), work.max_wait_ms) == (1, 0), "the refusal does not wait"
    w.links[1].answer(FetchedPartition(0, 60, 60, 0))
    assert w.reply(11) == (5, [(0, 29, -1, b""), (0, 0, 60, b"")])
