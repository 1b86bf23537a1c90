"""FetchRequest and FetchResponse: many fetches per message, long answers in several messages."""

import contextlib
import os
from struct import Struct
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.fetch import (
    READ_COMMITTED,
    SMALL_RANGE,
    FetchedPartition,
    FetchPartition,
    FetchSet,
    FetchWork,
)
from highwater.hop.fetch_codec import (
    PIECE_BYTES,
    ResponseWriter,
    decode_request,
    encode_request,
    parse_response,
    works_of,
)
from highwater.hop.framing import HopFramingError, joined
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, NodeId, TopicId

TOPIC_A, TOPIC_B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def work_of(call_id, *partitions, instance="", isolation_level=0):
    work = FetchWork(
        instance=InstanceId(instance),
        partitions=[FetchPartition(*p) for p in partitions],
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        done=lambda _work: None,
    )
    work.call_id = call_id
    return work


def meaning(work):
    return (
        work.call_id,
        work.instance,
        work.partitions,
        work.max_wait_ms,
        work.min_bytes,
        work.max_bytes,
        work.isolation_level,
    )


def sample_works():
    return [
        work_of(7, (TOPIC_A, 0, -1, 0, -1, 100), (TOPIC_B, 9, 4, 1 << 40, 3, 0)),
        work_of(8, (TOPIC_B, 1, 0, 5, -1, 1), instance="team", isolation_level=1),
        work_of(9),
    ]


def test_encoded_fetches_decode_to_the_same():
    request = decode_request(encode_request(sample_works(), [3, 4], True))
    assert list(request.cancelled_call_ids) == [3, 4]
    assert request.accepts_references
    got = works_of(request, lambda _work: None)
    assert [meaning(w) for w in got] == [meaning(w) for w in sample_works()]


def test_the_nodes_near_to_clients_go_with_their_fetches():
    works = sample_works()
    assert not decode_request(encode_request(works, [], True)).call_near
    works[0].near = works[2].near = (NodeId(0), NodeId(3))
    works.append(work_of(10, (TOPIC_A, 0, -1, 0, -1, 100)))
    works[3].near = (NodeId(2),)
    request = decode_request(encode_request(works, [], True))
    assert [list(one.nodes) for one in request.near] == [[0, 3], [2]]
    got = works_of(request, lambda _work: None)
    assert [work.near for work in got] == [(0, 3), (), (0, 3), (2,)]
    assert [meaning(w) for w in got] == [meaning(w) for w in works]


@pytest.mark.parametrize("call_near", [b"\1\0\0\0", b"\2\0\0\0" * 3, b"\0"])
def test_near_nodes_that_do_not_fit_are_refused(call_near):
    request = decode_request(encode_request(sample_works(), [], True))
    request.near.add(nodes=[1])
    request.call_near = call_near
    with pytest.raises(HopFramingError):
        works_of(request, lambda _work: None)


@pytest.mark.parametrize("preferred", [-1, 0, 7])
def test_the_preferred_replica_comes_back(preferred):
    work = work_of(7, (TOPIC_A, 0, -1, 0, -1, 100), (TOPIC_A, 1, -1, 0, -1, 100))
    work.results = [FetchedPartition(0, 5, 5, 0), FetchedPartition(0, 6, 6, 0)]
    work.results[1].preferred_replica = preferred
    writer = ResponseWriter(references=False)
    writer.add(work)
    (message,) = writer.take()
    ((answer,), _) = parse_response(joined(message))
    assert [result.preferred_replica for result in answer.results] == [-1, preferred]


@pytest.mark.parametrize(("asked", "limit"), [(1, 1), (1 << 31, SMALL_RANGE), (0, None)])
def test_small_records_are_copied_if_the_peer_takes_them_as_bytes(asked, limit):
    """Up to the node's own limit. Older gateways do not ask for it."""
    memory = SimpleNamespace(replies_scarce=False)
    request = decode_request(encode_request(sample_works(), [], True, asked))
    for work in works_of(request, lambda _work: None, memory):
        if limit is None:
            assert work.memory is None
        else:
            assert (work.memory, work.copied_bytes_max) == (memory, limit)


@pytest.mark.parametrize("field", ["calls", "partitions"])
@pytest.mark.parametrize("cut", [-1, 1, None])
def test_inconsistent_rows_are_refused(field, cut):
    request = decode_request(encode_request(sample_works(), [], True))
    rows = getattr(request, field)
    whole_row = len(rows) // 3
    setattr(request, field, rows[:-whole_row] if cut is None else rows[:cut])
    if field == "calls" and cut is None:
        assert sample_works()[-1].partitions == [], "the last call asks for nothing"
        request.calls += rows[:whole_row]
    with pytest.raises(HopFramingError):
        works_of(request, lambda _work: None)


@pytest.mark.parametrize(("field", "at"), [("calls", 8), ("calls", 12), ("partitions", 0)])
@pytest.mark.parametrize("value", [3, 1 << 30, -1])
def test_indexes_out_of_range_are_refused(field, at, value):
    request = decode_request(encode_request(sample_works(), [], True))
    rows = bytearray(getattr(request, field))
    rows[at : at + 4] = value.to_bytes(4, "little", signed=True)
    setattr(request, field, bytes(rows))
    with pytest.raises(HopFramingError):
        works_of(request, lambda _work: None)


class StoredRange:
    """A place in a file, as storage gives it."""

    def __init__(self, file, position, length):
        self.fd, self.position, self.length = file.fileno(), position, length
        self.path, self.log_dir, self.inode = "t-0/0.log", 1, os.fstat(self.fd).st_ino
        self.released = 0

    def release(self):
        self.released += 1


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(bytes(i % 251 for i in range(5 << 20)))
    with path.open("rb") as file:
        yield file


def answered(call_id, *results, throttle_ms=0, isolation_level=0):
    work = work_of(
        call_id, *[(TOPIC_A, i, -1, 0, -1, 0) for i in range(len(results))],
        isolation_level=isolation_level,
    )  # fmt: skip
    work.results = list(results)
    work.throttle_ms = throttle_ms
    return work


def found(stored, position, length):
    return FetchedPartition(0, 50, 40, 30, StoredRange(stored, position, length), length)


def write(works, *, references=False):
    writer = ResponseWriter(references=references)
    for work in works:
        writer.add(work)
    return [joined(message) for message in writer.take()]


def gather(messages, isolation_level=0):
    """Joins the pieces of answers, as the gateway does: call id -> (results, throttle)."""
    begun, whole = {}, {}
    for message in messages:
        for answer in parse_response(message)[0]:
            first, payload = begun.pop(answer.call_id, (answer, b""))
            payload += bytes(answer.payload)
            if answer.done:
                assert answer.call_id not in whole
                results = first.fill(memoryview(payload), isolation_level)
                whole[answer.call_id] = (results, first.throttle_ms)
            else:
                begun[answer.call_id] = (first, payload)
    assert begun == {}
    return whole


def read(stored, position, length):
    return os.pread(stored.fileno(), length, position)


def test_several_answers_share_a_message(stored):
    ranges = [found(stored, 10, 100), found(stored, 500, 7), found(stored, 900, 1)]
    places = [result.records for result in ranges]
    messages = write(
        [
            answered(1, ranges[0], FetchedPartition(6), ranges[1], throttle_ms=12),
            answered(2),
            answered(3, ranges[2]),
        ]
    )
    assert len(messages) == 1
    whole = gather(messages)
    results, throttle_ms = whole[1]
    assert throttle_ms == 12
    assert [bytes(r.records) for r in results] == [
        read(stored, 10, 100),
        b"",
        read(stored, 500, 7),
    ]
    assert [r.error_code for r in results] == [0, 6, 0]
    assert (results[0].high_watermark, results[0].last_stable_offset) == (50, 40)
    assert results[0].log_start_offset == 30
    assert whole[2] == ([], 0)
    assert bytes(whole[3][0][0].records) == read(stored, 900, 1)
    assert [place.released for place in places] == [1, 1, 1]


@pytest.mark.parametrize(
    "sizes",
    [
        [PIECE_BYTES],
        [PIECE_BYTES + 1],
        [PIECE_BYTES - 1, 1, 1],
        [3 * PIECE_BYTES + 17, 5],
        [10, 2 * PIECE_BYTES, 10],
        [PIECE_BYTES, PIECE_BYTES],
    ],
)
def test_long_answers_are_split(stored, sizes):
    works = [answered(n, found(stored, n, size)) for n, size in enumerate(sizes)]
    works.append(answered(99, FetchedPartition(3)))
    messages = write(works)
    assert all(len(message) < PIECE_BYTES + 4096 for message in messages)
    for message in messages:
        pb.FetchResponse.FromString(message)
    whole = gather(messages)
    for n, size in enumerate(sizes):
        assert bytes(whole[n][0][0].records) == read(stored, n, size)
    assert whole[99][0][0].error_code == 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 700_000), max_size=3), max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_any_answers_survive_encoding(tmp_path_factory, works, taken):
    path = tmp_path_factory.getbasetemp() / "any.log"
    if not path.exists():
        path.write_bytes(os.urandom(1 << 20))
    with path.open("rb") as file:
        writer, messages = ResponseWriter(references=False), []
        for number, sizes in enumerate(works):
            writer.add(
                answered(
                    number,
                    *[found(file, n, s) if s else FetchedPartition(1) for n, s in enumerate(sizes)],
                )
            )
            if taken[number]:
                messages += map(joined, writer.take())
        whole = gather([*messages, *map(joined, writer.take())])
        for number, sizes in enumerate(works):
            results = whole[number][0]
            assert [bytes(r.records) for r in results] == [
                read(file, n, s) for n, s in enumerate(sizes)
            ]


def test_references_name_places_and_carry_no_bytes(stored):
    one, two = found(stored, 10, 4 << 20), found(stored, 20, 5)
    places = [one.records, two.records]
    (message,) = write([answered(1, FetchedPartition(6), one), answered(2, two)], references=True)
    assert len(message) < 300
    (first, second), _begun = parse_response(message)
    ((result, file, position),) = first.references
    assert result is first.results[1]
    assert (file.path, file.log_dir, position) == ("t-0/0.log", 1, 10)
    assert file.inode == os.fstat(stored.fileno()).st_ino
    assert result.nbytes == 4 << 20
    assert [position for _, _, position in second.references] == [20]
    assert len(pb.FetchResponse.FromString(message).files) == 1
    assert [place.released for place in places] == [1, 1]


def in_memory(data):
    return FetchedPartition(0, 50, 40, 30, bytearray(data), len(data))


def resolved(message, isolation_level=0):
    """(bytes or position of each result's records) of each answer in a message."""
    found = []
    for answer in parse_response(message)[0]:
        places = {id(result): place for result, _file, place in answer.references}
        results = answer.fill(answer.payload, isolation_level)
        found.append([places.get(id(r), bytes(r.records)) for r in results])
    return found


def test_records_in_memory_travel_beside_references(stored):
    one, two = found(stored, 10, 4 << 20), found(stored, 20, 5)
    works = [
        answered(1, in_memory(b"first"), FetchedPartition(6), one, in_memory(b"third")),
        answered(2, in_memory(b"alone")),
        answered(3, two),
        answered(4),
    ]
    (message,) = write(works, references=True)
    assert resolved(message) == [[b"first", b"", 10, b"third"], [b"alone"], [20], []]
    assert all(result.nbytes == 0 for work in works for result in work.results), "all released"


def test_records_in_memory_are_sent_without_a_copy():
    records = [bytearray(b"a" * 20_000), bytearray(b"b" * 30_000)]
    results = [FetchedPartition(0, 5, 5, 0, body, len(body)) for body in records]
    writer = ResponseWriter(references=True)
    writer.add(answered(1, *results))
    ((_, *payload),) = writer.take()
    assert [body is record for body, record in zip(payload, records, strict=True)] == [True, True]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["memory", "file", "none"]), st.integers(1, 400_000)),
            max_size=5,
        ),
        max_size=5,
    ),
    st.sampled_from([0, READ_COMMITTED]),
)
def test_any_mixture_of_bytes_and_references_survives(tmp_path_factory, answers, isolation_level):
    path = tmp_path_factory.getbasetemp() / "mixed.log"
    if not path.exists():
        path.write_bytes(os.urandom(1 << 20))
    with path.open("rb") as file:
        works, expected = [], []
        for call_id, parts in enumerate(answers):
            results, records = [], []
            for at, (kind, nbytes) in enumerate(parts):
                data = read(file, at, nbytes)
                if kind == "none":
                    results.append(FetchedPartition(3))
                    records.append(b"")
                elif kind == "file":
                    results.append(found(file, at, nbytes))
                    records.append(at)
                else:
                    results.append(in_memory(data))
                    records.append(data)
            works.append(answered(call_id, *results))
            expected.append(records)
        begun, got = {}, {}
        for message in write(works, references=True):
            assert len(message) < PIECE_BYTES + 8192
            for answer in parse_response(message)[0]:
                first, payload = begun.pop(answer.call_id, (answer, b""))
                payload += bytes(answer.payload)
                if not answer.done:
                    begun[answer.call_id] = first, payload
                    continue
                places = {id(result): place for result, _file, place in first.references}
                results = first.fill(memoryview(payload), isolation_level)
                got[answer.call_id] = [places.get(id(r), bytes(r.records)) for r in results]
                for result in results:
                    assert (result.aborted_transactions is None) == (isolation_level == 0)
        assert begun == {}
        assert [got[call_id] for call_id in range(len(answers))] == expected


def test_details_are_sent_for_partitions_that_have_them(stored):
    moved = FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    moved.leader, moved.leader_epoch = 3, 8
    diverging = FetchedPartition(0, 9, 9, 0)
    diverging.diverging_epoch, diverging.diverging_end_offset = 2, 5
    aborted = FetchedPartition(0, 9, 9, 0)
    aborted.aborted_transactions = [(77, 1), (78, 4)]
    plain = FetchedPartition(0, 9, 9, 0)
    whole = gather(write([answered(1, plain, moved), answered(2, diverging, aborted)]))
    _, one = whole[1][0]
    two, three = whole[2][0]
    assert (one.leader, one.leader_epoch) == (3, 8)
    assert (two.diverging_epoch, two.diverging_end_offset) == (2, 5)
    assert three.aborted_transactions == [(77, 1), (78, 4)]
    assert two.aborted_transactions is None


def test_read_committed_has_a_list_even_if_nothing_was_aborted():
    whole = gather(write([answered(1, FetchedPartition(0, 9, 9, 0))]), READ_COMMITTED)
    assert whole[1][0][0].aborted_transactions == []


def test_a_range_that_cannot_be_read_is_an_error_of_its_partition_alone(stored):
    bad, good = found(stored, 5 << 20, 100), found(stored, 0, 10)
    place = bad.records
    whole = gather(write([answered(1, bad, good)]))
    results, _ = whole[1]
    assert [r.error_code for r in results] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert bytes(results[1].records) == read(stored, 0, 10)
    assert place.released == 1


ANSWER_ROW, RESULT_ROW = Struct("<QiiIB"), Struct("<hqqqI")


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [(1, 1, 0, 107, 1)],
        [(1, 3, 0, 107, 1)],
        [(1, -1, 0, 107, 1)],
        [(1, 2, 0, 106, 1)],
        [(1, 2, 0, 108, 1)],
        [(1, 2, 0, 107, 1), (2, 1, 0, 0, 1)],
    ],
)
def test_inconsistent_answers_are_refused(stored, answers):
    (message,) = write([answered(1, found(stored, 0, 100), found(stored, 0, 7))])
    header = pb.FetchResponse.FromString(message)
    assert header.answers == ANSWER_ROW.pack(1, 2, 0, 107, 1)
    header.answers = b"".join(ANSWER_ROW.pack(*answer) for answer in answers)
    with pytest.raises(HopFramingError):
        gather([framed(header)])


@pytest.mark.parametrize("sizes", [[100, 8], [99, 7], [100], [100, 7, 0]])
def test_unannounced_records_are_refused(stored, sizes):
    (message,) = write([answered(1, found(stored, 0, 100), found(stored, 0, 7))])
    header = pb.FetchResponse.FromString(message)
    header.partitions = b"".join(RESULT_ROW.pack(0, 50, 40, 30, size) for size in sizes)
    with pytest.raises(HopFramingError):
        gather([framed(header)])


@pytest.mark.parametrize(
    "references",
    [[(0, 0, 0)], [(2, 0, 0)], [(1 << 31, 0, 0)], [(1, 1, 0)], [(1, 0, 0), (1, 0, 0)]],
)
def test_references_to_other_partitions_or_files_are_refused(stored, references):
    (message,) = write([answered(1, FetchedPartition(6), found(stored, 0, 7))], references=True)
    header = pb.FetchResponse.FromString(message)
    header.references = b"".join(Struct("<IIQ").pack(*reference) for reference in references)
    with pytest.raises(HopFramingError):
        parse_response(framed(header))


@pytest.mark.parametrize("payload", [b"", b"bytes!", b"byt"])
def test_bytes_beside_references_are_counted(stored, payload):
    (message,) = write([answered(1, in_memory(b"bytes"), found(stored, 0, 7))], references=True)
    header = pb.FetchResponse.FromString(message)
    header.payload = payload
    header.answers = ANSWER_ROW.pack(1, 2, 0, len(payload), 1)
    (answer,), _begun = parse_response(framed(header))
    with pytest.raises(HopFramingError):
        answer.fill(answer.payload, 0)


def test_the_last_message_says_how_many_requests_were_begun(stored):
    writer = ResponseWriter(references=False)
    assert writer.take() == []
    (message,) = writer.take(2)
    assert parse_response(message) == ([], 2)
    writer.add(answered(1, found(stored, 0, PIECE_BYTES + 5)))
    assert [parse_response(joined(message))[1] for message in writer.take(3)] == [0, 3]


def test_a_detail_of_no_partition_is_refused():
    (message,) = write([answered(1, FetchedPartition(6))])
    header = pb.FetchResponse.FromString(message)
    header.details.add(index=1)
    with pytest.raises(HopFramingError):
        parse_response(framed(header))


def framed(header):
    """The message again, after a field was changed."""
    payload = header.payload
    header.ClearField("payload")
    header.header_bytes = len(header.SerializeToString())
    tail = pb.FetchResponse(payload=payload).SerializeToString() if payload else b""
    return header.SerializeToString() + tail


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_changed_bytes_raise_no_other_error(at, new):
    (response,) = write([answered(1, FetchedPartition(6)), answered(2)])
    request = encode_request(sample_works(), [3], True)
    for message, read_again in (
        (request, lambda m: works_of(decode_request(m), lambda _work: None)),
        (response, parse_response),
    ):
        changed = bytearray(message)
        changed[at % len(changed) : at % len(changed) + len(new)] = new
        with contextlib.suppress(HopFramingError):
            read_again(bytes(changed))


def of_set(fetch_set):
    work = work_of(1)
    work.fetch_set = fetch_set
    return work


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["update", "drop"]), st.integers(1, 4)),
            st.tuples(st.just("fetch"), st.just(0)),
        )
    )
)
def test_a_node_knows_of_a_set_what_its_gateway_asks(steps):
    """Partitions leave and come back between two fetches, since their leaders move."""
    fetch_set, known_sets, stream = FetchSet(), {}, object()
    fetch_set.set_id = 5
    for number, (step, place) in enumerate([*steps, ("fetch", 0)]):
        if step == "update":
            fetch_set.update(place, FetchPartition(TOPIC_A, place, -1, number, -1, 100))
        elif step == "drop":
            if place in fetch_set.asked:
                fetch_set.drop(place)
        else:
            message = encode_request([of_set(fetch_set)], [], True, stream=stream)
            (work,) = works_of(decode_request(message), lambda _: None, known_sets=known_sets)
            assert work.fetch_set is known_sets[5]
            assert work.fetch_set.asked == fetch_set.asked
