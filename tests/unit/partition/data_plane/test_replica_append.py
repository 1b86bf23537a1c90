"""Appends at a leader: Kafka's codes, unchanged bytes, groups with mixed outcomes."""

import struct

import pytest
from crc32c import crc32c

from highwater.hop.append import OUTCOME_NOT_APPENDED, OUTCOME_UNKNOWN
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    MAX_TIMESTAMP_AT,
    iter_batches,
    read_header,
)
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.policy import AppendPolicy
from tests.support.log_batches import make_batch
from tests.support.searches import found_by
from tests.unit.partition.data_plane.node import EPOCH, Node, ask, stored
from tests.unit.partition.data_plane.roles import follow, image_says, lead


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def resealed(batch, at, layout, value):
    """The batch with a header field changed, and a correct checksum."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, CRC_AT, crc32c(changed[ATTRIBUTES_AT:]))
    return changed


def good(**spec):
    return make_batch(timestamps=(1000, 1001), **spec)


# ---- refused batches ----

REFUSED = {
    "cut": (good()[:40], ErrorCode.CORRUPT_MESSAGE),
    "empty": (bytearray(), ErrorCode.CORRUPT_MESSAGE),
    "checksum": (good()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (resealed(good(), 16, "b", 1), ErrorCode.INVALID_RECORD),
    "two batches": (good() + good(), ErrorCode.INVALID_RECORD),
    "count differs": (resealed(good(), 57, ">i", 3), ErrorCode.INVALID_RECORD),
    "no records": (resealed(resealed(good(), 57, ">i", 0), 23, ">i", -1), ErrorCode.INVALID_RECORD),
    "more records than bytes": (
        resealed(resealed(good(), 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2),
        ErrorCode.INVALID_RECORD,
    ),
    "control": (resealed(good(), 21, ">h", 0x20), ErrorCode.INVALID_RECORD),
    "of a transaction without its id": (
        make_batch(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "of a transaction without a producer": (
        make_batch(transactional=True),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "transactional control": (resealed(good(), 21, ">h", 0x30), ErrorCode.INVALID_RECORD),
    "stamped by the client": (resealed(good(), 21, ">h", 0x08), ErrorCode.INVALID_TIMESTAMP),
    "compression 5": (resealed(good(), 21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "sequence missing": (
        make_batch(producer_id=5, producer_epoch=0, base_sequence=-1),
        ErrorCode.INVALID_RECORD,
    ),
    "from the future": (
        make_batch(timestamps=(1_700_000_000_000 + 3_600_001,)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("writable", [True, False])
def test_refusals(node, name, writable):
    batch, code = REFUSED[name]
    replica = node.add()
    group, sink = node.group(
        memoryview(bytes(batch)) if not writable else memoryview(bytearray(batch))
    )
    group.writable = writable
    node.plane.append([group])
    assert sink.codes == {0: code}
    assert sink.offsets == {0: -1}
    assert replica.log.log_end_offset == 0
    assert stored(replica) == b""
    assert node.bugs == []


def test_sizes(node):
    batch = good()
    size = len(batch)
    node.add(0, policy=AppendPolicy(message_bytes_max=size))
    node.add(1, policy=AppendPolicy(message_bytes_max=size - 1))
    node.add(2, policy=AppendPolicy(segment_bytes=size - 1))
    assert node.append(good()).codes == {0: 0}
    assert node.append(good(), partition=1).codes == {0: ErrorCode.MESSAGE_TOO_LARGE}
    assert node.append(good(), partition=2).codes == {0: ErrorCode.RECORD_LIST_TOO_LARGE}


def test_the_latest_allowed_timestamp_is_accepted(node):
    node.add(policy=AppendPolicy(timestamp_after_ms_max=1000))
    edge = node.clock.now_ms + 1000
    assert node.append(make_batch(timestamps=(edge,))).codes == {0: 0}
    assert node.append(make_batch(timestamps=(edge + 1,))).codes == {0: ErrorCode.INVALID_TIMESTAMP}


def test_old_timestamps_are_refused_if_the_topic_limits_them(node):
    node.add(policy=AppendPolicy(timestamp_before_ms_max=1000))
    now = node.clock.now_ms
    assert node.append(make_batch(timestamps=(now - 1000,))).codes == {0: 0}
    assert node.append(make_batch(timestamps=(-1,))).codes == {0: 0}, "no timestamp at all"
    for timestamps in ((now - 1001,), (now - 5000, now), (now, now - 1)):
        codes = node.append(make_batch(timestamps=timestamps)).codes
        expected = 0 if min(timestamps) >= now - 1000 else ErrorCode.INVALID_TIMESTAMP
        assert codes == {0: expected}


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_an_append_of_another_epoch_gets_the_present_leader(node, epoch):
    node.add()
    sink = node.append(good(), epoch=epoch)
    failure = sink.results[0][2]
    assert failure.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (failure.leader, failure.leader_epoch) == (1, EPOCH)


def test_a_refusal_names_the_present_leader_not_a_former_one(node):
    replica = node.add()
    follow(replica, 7, 5)
    failure = node.append(good()).results[0][2]
    assert (failure.leader, failure.leader_epoch) == (7, 5)
    lead(replica, 6)
    failure = node.append(good(), epoch=5).results[0][2]
    assert (failure.leader, failure.leader_epoch) == (1, 6)


def test_no_replica(node):
    assert node.append(good()).codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


# ---- written batches ----


@pytest.mark.parametrize("how", ["whole", "writable", "read-only"])
def test_batches_are_stored_as_sent_but_for_offset_and_epoch(node, how):
    replica = node.add()
    node.append(good())
    batches = [good(value=b"x" * 10), good(compression=1), make_batch(timestamps=(5,) * 9)]
    before = [bytes(b) for b in batches]
    group, sink = node.group(*[memoryview(b) for b in batches])
    if how == "whole":
        group.whole = bytearray(b"".join(batches))
        view, at = memoryview(group.whole), 0
        for n, batch in enumerate(batches):
            group.batches[n] = view[at : at + len(batch)]
            at += len(batch)
    elif how == "read-only":
        group.batches = [memoryview(bytes(b)) for b in batches]
        group.writable = False
    node.plane.append([group])
    assert sink.offsets == {0: 2, 1: 4, 2: 6}
    assert replica.log.log_end_offset == replica.high_watermark == 15
    content = stored(replica)
    views = list(iter_batches(content))
    assert [v.base_offset for v in views] == [0, 2, 4, 6]
    assert all(v.leader_epoch == EPOCH and v.crc_ok() for v in views)
    for view, original in zip(views[1:], before, strict=True):
        assert content[view.start + 16 : view.end] == original[16:]
    if how == "read-only":
        assert [bytes(b) for b in group.batches] == before


def test_each_batch_of_a_group_has_its_own_outcome(node):
    replica = node.add()

    def sequenced(first, **spec):
        return make_batch(producer_id=9, producer_epoch=0, base_sequence=first, **spec)

    node.append(sequenced(0))
    batches = [
        sequenced(0),  # In the log already, at offset 0.
        good(),
        sequenced(5),  # A gap.
        good()[:-1] + b"?",
        sequenced(1),
        make_batch(producer_id=9, producer_epoch=-1, base_sequence=0),  # An old epoch.
        good(),
    ]
    whole = bytearray(b"".join(batches))
    group, sink = node.group(*batches)
    group.whole = whole
    view, at = memoryview(whole), 0
    for n, batch in enumerate(batches):
        group.batches[n] = view[at : at + len(batch)]
        at += len(batch)
    node.plane.append([group])
    assert sink.codes == {
        0: 0,
        1: 0,
        2: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        3: ErrorCode.CORRUPT_MESSAGE,
        4: 0,
        5: ErrorCode.INVALID_PRODUCER_EPOCH,
        6: 0,
    }
    assert sink.offsets == {0: 0, 1: 1, 2: -1, 3: -1, 4: 3, 5: -1, 6: 4}
    assert replica.log.log_end_offset == 6
    assert [v.base_offset for v in iter_batches(stored(replica))] == [0, 1, 3, 4]


def test_a_group_without_any_good_batch_writes_nothing(node):
    replica = node.add()
    group, sink = node.group(good()[:30], good()[:-1] + b"?")
    node.plane.append([group])
    assert sink.codes == {0: 2, 1: 2}
    assert stored(replica) == b""
    assert replica.high_watermark == 0


def test_a_repeated_batch_is_answered_with_its_first_offset(node):
    replica = node.add()
    sequences = [make_batch(producer_id=1, producer_epoch=0, base_sequence=n) for n in range(7)]
    for batch in sequences:
        node.append(bytearray(batch))
    codes = [node.append(bytearray(b)).results[0][1:] for b in sequences]
    assert [offset for offset, _ in codes] == [-1, -1, 2, 3, 4, 5, 6]
    assert replica.log.log_end_offset == 7
    early = codes[0][1]
    assert early.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("log_append_time", [True, False])
def test_a_batch_that_was_sent_twice_is_answered_with_the_timestamp_of_the_first(
    node, log_append_time
):
    """Its largest timestamp, as in Kafka, even if the topic has CreateTime."""
    node.add(policy=AppendPolicy(log_append_time=log_append_time))
    sent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "timestamps": (900, 800)}
    first = node.clock.now_ms if log_append_time else 900
    node.append(make_batch(**sent))
    node.clock.now_ms += 5000
    group, sink = node.group(make_batch(), make_batch(**sent))
    node.plane.append([group])
    assert sink.offsets == {0: 2, 1: 0}
    assert group.known_timestamps == {1: first}
    assert group.log_append_time_ms == (node.clock.now_ms if log_append_time else -1)


@pytest.mark.parametrize("writable", [True, False])
def test_log_append_time_restamps(node, writable):
    replica = node.add(policy=AppendPolicy(log_append_time=True))
    batch = make_batch(timestamps=(node.clock.now_ms + 10**9, 5))
    group, sink = node.group(memoryview(bytearray(batch) if writable else bytes(batch)))
    group.writable = writable
    node.plane.append([group])
    assert sink.codes == {0: 0}, "the client's time does not matter"
    assert group.log_append_time_ms == node.clock.now_ms
    (view,) = iter_batches(stored(replica))
    header = read_header(stored(replica))
    assert view.crc_ok()
    assert header.attributes & 0x08
    assert header.max_timestamp == node.clock.now_ms
    assert header.base_timestamp == read_header(batch).base_timestamp
    assert found_by(replica.log.search.first_with_largest())[:2] == (node.clock.now_ms, 0), (
        "one time for all"
    )


def test_create_time_is_reported_without_an_append_time(node):
    node.add()
    group, _ = node.group(good())
    node.plane.append([group])
    assert group.log_append_time_ms == -1
    assert group.log_start_offset == 0


def test_deep_validation_checks_the_records(node):
    node.add(0)
    node.add(1, policy=AppendPolicy(validate_records=True))
    node.add(2, policy=AppendPolicy(compacted=True))
    nonsense = bytearray(good())
    nonsense[61:] = b"\xff" * (len(nonsense) - 61)
    nonsense = resealed(nonsense, 21, ">h", 0)
    codes = [node.append(bytearray(nonsense), partition=n).codes[0] for n in range(3)]
    assert codes == [0, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD]
    assert node.append(good(), partition=1).codes == {0: 0}
    assert node.append(good(), partition=2).codes == {0: 0}, "its records have keys"


# ---- failures ----


def failing(_fd, _buffers, _position):
    raise OSError(5, "Input/output error")


def test_a_failed_write_takes_the_partition_offline(node):
    replica = node.add()
    node.add(1)
    waiting = node.fetch(ask(0))
    filesystem = replica.log._place.environment.filesystem
    filesystem.pwritev = failing
    sink = node.append(good())
    assert sink.codes == {0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert sink.results[0][2].outcome == OUTCOME_UNKNOWN
    assert len(node.log_failures) == 1
    assert waiting.codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.append(good()).codes == {0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert node.fetch(ask(0)).codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.append(good(), partition=1).codes == {0: 0}
    assert node.plane.waiting_fetches == 0


def test_an_unforeseen_exception_takes_one_partition_offline(node):
    replica = node.add()
    node.add(1)

    class Broken:
        def __getattr__(self, name):
            raise ZeroDivisionError(name)

    replica.log = Broken()
    bad, bad_sink = node.group(good())
    fine, fine_sink = node.group(good(), partition=1)
    node.plane.append([bad, fine])
    assert bad_sink.codes == {0: ErrorCode.KAFKA_STORAGE_ERROR}
    assert fine_sink.codes == {0: 0}
    assert [type(bug) for bug in node.bugs] == [ZeroDivisionError]


# ---- a wrong largest timestamp in the header ----


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("said", [5, -1, 1_700_000_000_000 + 9_999_999])
@pytest.mark.parametrize("compression", [0, 1])
def test_deep_validation_corrects_the_largest_timestamp(node, writable, said, compression):
    """Retention and search by time use the header's timestamp (Kafka's LogValidator)."""
    replica = node.add(policy=AppendPolicy(validate_records=True))
    batch = resealed(good(compression=compression), MAX_TIMESTAMP_AT, ">q", said)
    group, sink = node.group(memoryview(bytearray(batch) if writable else bytes(batch)))
    group.writable = writable
    node.plane.append([group])
    assert sink.codes == {0: 0}
    (view,) = iter_batches(stored(replica))
    assert (view.max_timestamp, view.crc_ok()) == (1001, True)
    assert bytes(view.payload) == bytes(memoryview(batch)[61:])
    assert replica.log.extent.active.max_timestamp == 1001


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("said", [999, 5, 0, -1, -(2**63)])
@pytest.mark.parametrize("timestamps", [(1000,), (1000, 1001), (1000, 7, 1001, -1)])
@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_a_largest_timestamp_before_the_first_one_is_corrected(
    node, writable, said, timestamps, compression
):
    """Without deep validation, too: such a header cannot be right."""
    replica = node.add()
    sent = make_batch(timestamps=timestamps, compression=compression)
    batch = resealed(sent, MAX_TIMESTAMP_AT, ">q", said)
    group, sink = node.group(good(), memoryview(batch if writable else bytes(batch)), good())
    group.writable = writable
    node.plane.append([group])
    assert sink.codes == {0: 0, 1: 0, 2: 0}
    _, view, _ = iter_batches(stored(replica))
    assert (view.max_timestamp, view.crc_ok()) == (max(timestamps), True)
    assert bytes(view.payload) == bytes(memoryview(sent)[61:])
    assert replica.log.extent.active.max_timestamp == 1001
    if not writable:
        assert bytes(group.batches[1]) == batch


def test_records_without_timestamps_stay_so(node):
    replica = node.add()
    for batch in (make_batch(timestamps=(-1,)), make_batch(timestamps=(-1, -1), compression=1)):
        assert node.append(batch).codes == {0: 0}
    assert [view.max_timestamp for view in iter_batches(stored(replica))] == [-1, -1]
    assert replica.log.extent.active.max_timestamp == -1
    assert found_by(replica.log.search.first_with_largest()) is None


def test_any_other_largest_timestamp_is_trusted_without_deep_validation(node):
    replica = node.add()
    batch = resealed(make_batch(timestamps=(1000, 5000)), MAX_TIMESTAMP_AT, ">q", 1000)
    assert node.append(batch).codes == {0: 0}
    assert replica.log.extent.active.max_timestamp == 1000
    near = resealed(good(), MAX_TIMESTAMP_AT, ">q", node.clock.now_ms + 3_600_000)
    assert node.append(near).codes == {0: 0}
    assert replica.log.extent.active.max_timestamp == node.clock.now_ms + 3_600_000
    future = resealed(good(), MAX_TIMESTAMP_AT, ">q", node.clock.now_ms + 3_600_001)
    assert node.append(future).codes == {0: 0}
    *_, corrected = iter_batches(stored(replica))
    assert (corrected.max_timestamp, corrected.crc_ok()) == (1001, True)


@pytest.mark.parametrize("said", [5, -1])
def test_retention_keeps_new_records_whose_header_says_that_they_are_old(node, said):
    replica = node.add(retention_ms=60_000)
    now = node.clock.now_ms
    new = resealed(make_batch(timestamps=(now, now - 1)), MAX_TIMESTAMP_AT, ">q", said)
    assert node.append(make_batch(timestamps=(5,))).codes == {0: 0}
    replica.log.roll()
    assert node.append(new).codes == {0: 0}
    replica.log.roll()
    assert replica.log.apply_retention() == 1, "the old records"
    assert replica.log.log_start_offset == 1
    assert found_by(replica.log.search.first_at_or_after(now))[:2] == (now, 1)
    node.clock.now_ms += 60_000
    assert replica.log.apply_retention() == 0
    node.clock.now_ms += 1
    assert replica.log.apply_retention() == 1


# ---- without a session with the controller ----


def test_without_a_session_only_acks_all_is_accepted_if_configured(node):
    session = ControllerSession(node.clock.monotonic_ms)
    session.timeout_ms = 6_000
    replica = node.add(session=session)
    session.vouched_for(node.clock.now_ms)
    assert [node.append(good(), acks=acks).codes for acks in (0, 1, -1)] == [{0: 0}] * 3
    node.clock.now_ms += 6_000
    for acks in (0, 1):
        sink = node.append(good(), acks=acks)
        ((_, _, failure),) = sink.results
        assert failure.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert failure.outcome == OUTCOME_NOT_APPENDED
        assert (failure.leader, failure.leader_epoch) == (replica.leader, EPOCH)
        assert "no session" in failure.message
    assert node.append(good(), acks=-1).codes == {0: 0}, "safe by epoch and ISR"
    session.vouched_for(node.clock.now_ms)
    assert node.append(good(), acks=1).codes == {0: 0}
    assert replica.log.log_end_offset == 2 * 5


def test_without_a_session_a_small_isr_still_refuses(node):
    session = ControllerSession(node.clock.monotonic_ms)
    replica = node.add(lead=False, session=session)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 2), isr=(1,), min_isr=2)
    assert node.append(good(), acks=-1).codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS}
    assert node.append(good(), acks=1).codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_by_default_a_leader_accepts_all_acks_without_a_controller(node):
    node.add()
    node.clock.now_ms += 3_600_000
    assert [node.append(good(), acks=acks).codes for acks in (0, 1, -1)] == [{0: 0}] * 3
