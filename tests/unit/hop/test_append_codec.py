"""AppendRequest and AppendResponse survive encoding, and invalid ones are refused."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import OUTCOME_UNKNOWN, Failure, TransactionalWrite
from highwater.hop.append_codec import (
    COPY_BYTES_MAX,
    MESSAGE_BATCHES_MAX,
    MESSAGE_BYTES_MAX,
    apply_result,
    decode_request,
    decode_response,
    encode_request,
    result_of,
    split_messages,
)
from highwater.hop.append_expiry import NEVER_MS
from highwater.hop.framing import PLACEHOLDER, HopFramingError, frame, joined
from highwater.model.ids import TopicId
from tests.unit.hop.sinks import TOPIC, Owner, Sink, group_of

OTHER = TopicId(b"other-topic-16by")


def sample():
    return [
        group_of(b"aa", b"b", partition=3, epoch=7, acks=-1, deadline_ms=1500),
        group_of(b"c" * 100, partition=0, epoch=0, acks=0, topic_id=OTHER, deadline_ms=1200),
        group_of(memoryview(bytearray(b"d" * 50)), partition=3, epoch=8, acks=1),
    ]


def shape(groups):
    return [
        (
            g.topic_id,
            g.partition,
            g.leader_epoch,
            g.acks,
            g.instance,
            [bytes(b) for b in g.batches],
            g.nbytes,
            g.transaction,
        )
        for g in groups
    ]


def test_an_encoded_message_decodes_to_the_same_groups():
    message = encode_request(42, sample(), 1000)
    message_id, groups = decode_request(message)
    assert message_id == 42
    assert shape(groups) == shape(sample())
    whole = pb.AppendRequest.FromString(message)
    assert whole.deadline_ms == 500, "the latest deadline counts for the message"
    assert list(whole.topic_ids) == [TOPIC, OTHER]
    _, groups = decode_request(message, 70_000)
    assert {group.deadline_ms for group in groups} == {70_500}, "on the receiver's clock"


def test_a_group_that_has_come_knows_its_owner_and_its_place_in_the_message():
    owner = Owner()
    _, groups = decode_request(encode_request(42, sample(), 0), 0, owner)
    assert {group.owner for group in groups} == {owner}
    assert [(group.message_id, group.place) for group in groups] == [
        (42, place) for place in range(len(sample()))
    ]


def test_the_latest_deadline_of_a_group_counts():
    """A client with a short timeout must not end the wait of another one in the same group."""
    group = group_of(b"a", b"b", deadline_ms=1_005)
    group.later_deadlines = {1: 1_090}
    _, (decoded,) = decode_request(encode_request(1, [group], 1_000), 500)
    assert decoded.deadline_ms == 590


def test_groups_without_waiting_clients_do_not_extend_deadlines():
    over, waiting = group_of(b"a", deadline_ms=NEVER_MS), group_of(b"b", deadline_ms=1_030)
    _, (_, decoded) = decode_request(encode_request(1, [over, waiting], 1_000), 500)
    assert decoded.deadline_ms == 530
    _, (decoded,) = decode_request(encode_request(1, [over], 1_000), 500)
    assert decoded.deadline_ms == 501, "at once; 0 would be no deadline"


def test_a_passed_deadline_is_0():
    message = encode_request(1, [group_of(b"a", deadline_ms=5)], 1000)
    assert pb.AppendRequest.FromString(message).deadline_ms == 0


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 2**31 - 1),
            st.sampled_from([-1, 0, 1]),
            st.lists(st.binary(max_size=40), min_size=1, max_size=5),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_groups_survive_encoding(specs):
    groups = [
        group_of(*batches, partition=partition, epoch=epoch, acks=acks)
        for partition, epoch, acks, batches in specs
    ]
    _, got = decode_request(encode_request(9, groups, 0))
    assert shape(got) == shape(groups)


def test_small_groups_may_be_patched_in_one_buffer_and_large_ones_not():
    small = group_of(b"a" * (COPY_BYTES_MAX - 1), b"b")
    large = group_of(b"c" * COPY_BYTES_MAX, b"d")
    _, (one, two) = decode_request(joined(encode_request(1, [small, large], 0)))
    assert one.writable
    one.batches[1][:] = b"x"
    assert one.whole == b"a" * (COPY_BYTES_MAX - 1) + b"x"
    assert not two.writable
    assert two.whole is None
    assert two.batches[0].readonly


def test_groups_of_a_message_that_is_theirs_are_patched_in_place():
    groups = [group_of(b"a" * COPY_BYTES_MAX, b"b"), group_of(b"c", b"d")]
    message = bytearray(joined(encode_request(1, groups, 0)))
    _, (one, two) = decode_request(message)
    assert (one.writable, two.writable) == (True, True)
    one.batches[1][:] = b"x"
    two.batches[0][:] = b"y"
    assert message.endswith(b"axyd"), "nothing was copied"
    assert one.whole == b"a" * COPY_BYTES_MAX + b"x"
    assert two.whole == b"yd"


def broken(**changes):
    header = pb.AppendRequest.FromString(encode_request(1, sample(), 0))
    for name, value in changes.items():
        field = getattr(header, name)
        del field[:]
        field.extend(value)
    payload = header.payload
    header.ClearField("payload")
    head = header.SerializeToString()
    header.header_bytes = len(head)
    return header.SerializeToString() + b"\x7a\x99\x01" + payload


def test_the_rebuilt_sample_is_valid():
    assert shape(decode_request(broken())[1]) == shape(sample())


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_bytes": [2, 1, 100, 51]},
        {"batch_bytes": [2, 1, 100]},
        {"batch_bytes": [2, 1, 100, 50, 0]},
        {"group_batches": [2, 1]},
        {"group_batches": [2, 1, 1, 0]},
        {"group_topic": [0, 1, 2]},
        {"group_topic": [0, 1]},
        {"group_acks": []},
        {"instances": ["only-one"]},
    ],
)
def test_inconsistent_arrays_are_refused(changes):
    with pytest.raises(HopFramingError):
        decode_request(broken(**changes))


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_changed_bytes_raise_no_other_error(at, new):
    message = bytearray(encode_request(1, sample(), 0))
    at %= len(message)
    message[at : at + len(new)] = new
    with contextlib.suppress(HopFramingError):
        decode_request(bytes(message))
    with contextlib.suppress(HopFramingError):
        decode_response(bytes(message))


def test_results_survive_encoding():
    there = group_of(b"a", b"b", b"c")
    there.log_start_offset = 5
    there.log_append_time_ms = 1_700_000_000_000
    failures = {
        1: Failure(87, "gap", record_errors=[(0, "no key"), (7, "no key")]),
        2: Failure(6, outcome=OUTCOME_UNKNOWN, leader=3, leader_epoch=9),
    }
    there.message_id, there.place = 8, 2
    result = result_of(there, [100, -1, -1], failures)
    assert (result.message_id, result.group) == (8, 2)
    sink = Sink()
    here = group_of(b"a", b"b", b"c", sink=sink)
    apply_result(pb.AppendGroupResult.FromString(result.SerializeToString()), here)
    assert sink.offsets == {0: 100, 1: -1, 2: -1}
    assert sink.codes == {0: 0, 1: 87, 2: 6}
    gap, moved = sink.results[1][2], sink.results[2][2]
    assert (gap.message, gap.outcome, gap.leader, gap.leader_epoch) == ("gap", 1, -1, -1)
    assert list(gap.record_errors) == [(0, "no key"), (7, "no key")]
    assert list(moved.record_errors) == []
    assert (moved.outcome, moved.leader, moved.leader_epoch) == (3, 3, 9)
    assert (here.log_start_offset, here.log_append_time_ms) == (5, 1_700_000_000_000)
    assert here.known_timestamps is None


def test_timestamps_of_known_batches_survive_encoding():
    there = group_of(b"a", b"b", b"c")
    there.message_id = there.place = 0
    there.known_timestamps = {0: -1, 2: 1_700_000_000_000}
    result = result_of(there, [3, 100, 2], None)
    here = group_of(b"a", b"b", b"c", sink=Sink())
    apply_result(pb.AppendGroupResult.FromString(result.SerializeToString()), here)
    assert here.known_timestamps == there.known_timestamps


@pytest.mark.parametrize(
    "result",
    [
        pb.AppendGroupResult(base_offsets=[1]),
        pb.AppendGroupResult(base_offsets=[1, 2, 3]),
        pb.AppendGroupResult(base_offsets=[1, 2], failures=[pb.AppendFailure(batch=2)]),
    ],
)
def test_results_for_other_batches_are_refused_without_effect(result):
    sink = Sink()
    here = group_of(b"a", b"b", sink=sink)
    with pytest.raises(HopFramingError):
        apply_result(result, here)
    assert sink.results == []


def test_messages_are_cut_by_bytes_and_batches_but_groups_are_whole():
    big = group_of(b"x" * (MESSAGE_BYTES_MAX + 5))
    half = [group_of(b"y" * (MESSAGE_BYTES_MAX // 2)) for _ in range(3)]
    many = [group_of(*[b"z"] * 100) for _ in range(4)]
    assert split_messages([big, *half]) == [[big], half[:2], half[2:]]
    assert split_messages(many) == [many[:2], many[2:]]
    assert MESSAGE_BATCHES_MAX == 256
    assert split_messages([]) == []


PAYMENTS, ORDERS = TransactionalWrite("payments", True), TransactionalWrite("orders", False)


@pytest.mark.parametrize(
    "transactions",
    [
        [PAYMENTS],
        [None, PAYMENTS, None],
        [ORDERS, PAYMENTS, ORDERS, TransactionalWrite("orders", True)],
    ],
)
def test_groups_keep_their_transactions(transactions):
    groups = [
        group_of(b"x%d" % n, partition=n, transaction=one) for n, one in enumerate(transactions)
    ]
    message = encode_request(7, groups, 0)
    assert shape(decode_request(message)[1]) == shape(groups)
    named = {one.transactional_id for one in transactions if one is not None}
    assert sorted(pb.AppendRequest.FromString(message).transactional_ids) == sorted(named)


def test_ordinary_groups_cost_no_byte_for_transactions():
    whole = pb.AppendRequest.FromString(encode_request(42, sample(), 0))
    assert (len(whole.group_transaction), len(whole.transactional_ids)) == (0, 0)


@pytest.mark.parametrize("codes", [[1], [1, 0], [0, 0, 9], [0, 0, 0, 0]])
def test_transactions_that_do_not_fit_the_groups_are_refused(codes):
    header = pb.AppendRequest.FromString(encode_request(42, sample(), 0))
    header.group_transaction.extend(codes)
    header.transactional_ids.append("payments")
    header.header_bytes = PLACEHOLDER
    payload = header.payload
    header.ClearField("payload")
    message = frame(header.SerializeToString(), [payload], len(payload))
    with pytest.raises(HopFramingError, match="malformed"):
        decode_request(message)
