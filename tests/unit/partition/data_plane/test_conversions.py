"""Batches of another codec than the topic's: converted before the append, nothing overtakes."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_SIZE,
    LEADER_EPOCH_AT,
    RecordBatchView,
    crc_of,
    is_control,
    iter_batches,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.record import read_records
from highwater.model.transactions import AwaitedMarker, TransactionMarker
from highwater.partition.data_plane import conversions as module
from highwater.partition.data_plane.conversions import Conversions, converted
from highwater.partition.data_plane.markers import MarkerWriter
from highwater.partition.data_plane.node_group import NodeGroup
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.refused_batch import RefusedBatch
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC, Owner, Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, Node, stored
from tests.unit.partition.data_plane.roles import NODE, follow, image_says, lead

NONE, GZIP, SNAPPY, LZ4, ZSTD = Compression


class Threads:
    """Runs conversions when the test says so."""

    def __init__(self):
        self.jobs = []
        self.waiting_bytes = 0
        self.full = False

    def admit(self, nbytes):
        if self.full:
            return False
        self.waiting_bytes += nbytes
        return True

    def leave(self, nbytes):
        self.waiting_bytes -= nbytes

    def submit(self, work, done):
        self.jobs.append((work, done))

    def run(self):
        """Runs what waits, but nothing that is submitted meanwhile."""
        jobs, self.jobs = self.jobs, []
        for work, done in jobs:
            done(work())


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def threads():
    return Threads()


def converting(node, threads, codec=GZIP, **policy):
    replica = node.add(policy=AppendPolicy(codec=codec, **policy))
    replica.conversions = Conversions(
        replica, threads, lambda group: node.plane.append_late(replica, group)
    )
    return replica


def codecs(replica):
    return [view.compression for view in iter_batches(stored(replica))]


def values(replica):
    return [
        record.value for view in iter_batches(stored(replica)) for record in read_records(view, 999)
    ]


def test_only_the_codec_and_what_depends_on_it_differs(node, threads):
    replica = converting(node, threads, ZSTD)
    sent = make_batch(timestamps=(1000, 3000, 2000), value=b"x" * 90, compression=GZIP)
    sink = node.append(sent)
    assert sink.results == []
    threads.run()
    assert sink.results == [(0, 0, None)]
    (view,) = iter_batches(stored(replica))
    before = RecordBatchView(sent, 0, len(sent)).header()
    after = view.header()
    assert view.compression == ZSTD
    assert view.crc_ok()
    changed = {"batch_length", "crc", "attributes", "leader_epoch"}
    for name, value in before._asdict().items():
        assert name in changed or getattr(after, name) == value
    assert list(read_records(view, 999)) == list(
        read_records(RecordBatchView(sent, 0, len(sent)), 999)
    )


def test_batches_that_are_right_pass_at_once_and_unchanged(node, threads):
    replica = converting(node, threads, GZIP)
    sent = make_batch(timestamps=(1000,), compression=GZIP)
    content = bytes(sent)
    sink = node.append(sent)
    assert sink.offsets == {0: 0}
    assert not threads.jobs
    at = LEADER_EPOCH_AT + 4
    assert bytes(stored(replica))[at:] == content[at:]


def test_nothing_overtakes_a_conversion(node, threads):
    replica = converting(node, threads, GZIP)
    first = node.append(make_batch(value=b"1"), make_batch(value=b"2", compression=GZIP))
    second = node.append(make_batch(value=b"3", compression=GZIP))
    third = node.append(make_batch(value=b"4", compression=LZ4))
    assert len(replica.conversions) == 3
    assert first.results == second.results == third.results == []
    threads.run()
    assert first.offsets == {0: 0, 1: 1}
    assert second.offsets == {0: 2}
    assert third.results == []
    threads.run()
    assert third.offsets == {0: 3}
    assert values(replica) == [b"1", b"2", b"3", b"4"]
    assert codecs(replica) == [GZIP] * 4
    assert not len(replica.conversions)
    assert threads.waiting_bytes == 0


def test_an_answer_may_bring_the_next_append(node, threads):
    """A client sends its next batch as soon as it has the answer, within the same call."""
    replica = converting(node, threads, GZIP)

    class Eager(Sink):
        def append_done(self, index, base_offset, group, failure):
            super().append_done(index, base_offset, group, failure)
            node.append(make_batch(value=b"last", compression=GZIP))

    node.plane.append([group_of(make_batch(value=b"first"), sink=Eager(), epoch=EPOCH)])
    node.append(make_batch(value=b"second"))
    threads.run()
    threads.run()
    assert values(replica) == [b"first", b"second", b"last"]


def test_the_senders_batches_stay_as_they_came(node, threads):
    """They may have to go to another leader."""
    converting(node, threads, GZIP)
    sent = make_batch(value=b"1")
    group = group_of(sent, sink=Sink(), epoch=EPOCH)
    group.whole = sent
    batches, content = group.batches, bytes(sent)
    node.plane.append([group])
    threads.run()
    assert batches == [sent]
    assert bytes(sent) == content
    assert group.whole is None


def test_a_read_only_group_is_converted_too(node, threads):
    replica = converting(node, threads, GZIP)
    sink = Sink()
    right = make_batch(value=b"2", compression=GZIP)
    group = group_of(
        memoryview(bytes(make_batch(value=b"1"))), memoryview(bytes(right)), sink=sink, epoch=EPOCH
    )
    group.writable = False
    node.plane.append([group])
    threads.run()
    assert sink.offsets == {0: 0, 1: 1}
    assert values(replica) == [b"1", b"2"]
    assert all(view.crc_ok() for view in iter_batches(stored(replica)))


def test_an_old_leader_refuses_what_waits_in_its_order(node, threads):
    replica = converting(node, threads, GZIP)
    order = []

    class Noted(Sink):
        def append_done(self, index, base_offset, group, failure):
            super().append_done(index, base_offset, group, failure)
            order.append(self)

    sinks = [Noted(), Noted(), Noted()]
    for sink in sinks:
        node.plane.append([group_of(make_batch(), sink=sink, epoch=EPOCH)])
    follow(replica, 2, EPOCH + 1)
    assert order == []
    threads.run()
    assert order == sinks
    assert not threads.jobs, "what is refused is not converted"
    assert {code for sink in sinks for code in sink.codes.values()} == {
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    }
    assert threads.waiting_bytes == 0
    lead(replica, EPOCH + 2)
    later = node.append(make_batch(value=b"later"), epoch=EPOCH + 2)
    threads.run()
    assert later.offsets == {0: 0}


def test_a_leader_that_resumes_appends_what_came_meanwhile_converted(node, threads):
    replica = converting(node, threads, GZIP)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    assert replica.hold_appends()
    sink = node.append(make_batch(value=b"1"))
    threads.run()
    assert sink.results == []
    replica.resume()
    assert sink.offsets == {0: 0}
    assert codecs(replica) == [GZIP]


def test_too_much_waits(node, threads):
    converting(node, threads, GZIP)
    threads.full = True
    sink = node.append(make_batch())
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    assert node.append(make_batch(compression=GZIP)).offsets == {0: 0}


def test_a_policy_that_takes_any_codec_again_converts_nothing(node, threads):
    replica = converting(node, threads, GZIP)
    first = node.append(make_batch(value=b"1"))
    second = node.append(make_batch(value=b"2"))
    replica.policy = AppendPolicy()
    threads.run()
    assert (first.offsets, second.offsets) == ({0: 0}, {0: 1})
    assert codecs(replica) == [GZIP, NONE]
    assert node.append(make_batch()).offsets == {0: 2}


def test_a_broken_conversion_fails_its_group_alone(node, threads):
    replica = converting(node, threads, GZIP)
    first, second = node.append(make_batch()), node.append(make_batch())
    (_, done), threads.jobs = threads.jobs[0], []
    done(MemoryError("no memory"))
    threads.run()
    assert first.codes == {0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert second.offsets == {0: 0}
    assert not replica.failed
    assert threads.waiting_bytes == 0


def test_a_bug_of_the_append_takes_the_replica_offline(node, threads):
    replica = converting(node, threads, GZIP)
    first, second = node.append(make_batch()), node.append(make_batch())
    replica.clock = None
    threads.run()
    assert replica.failed
    assert len(node.bugs) == 1
    codes = set(first.codes.values()) | set(second.codes.values())
    assert codes == {ErrorCode.KAFKA_STORAGE_ERROR}


# ---- refusals ----


def unpackable(codec):
    batch = make_batch(compression=codec)
    batch[HEADER_SIZE:] = b"?" * (len(batch) - HEADER_SIZE)
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch, 0, len(batch)).to_bytes(4, "big")
    return batch


def of_size(nbytes, compression=NONE):
    builder = RecordBatchBuilder(compression=compression)
    builder.append(key=None, value=b"a" * nbytes, timestamp_ms=1000)
    return bytearray(builder.build())


NOT_SMALLER = make_batch(value=bytes(range(20)))
"""It fits 100 bytes only as it came."""


@pytest.mark.parametrize(
    ("policy", "batch", "code"),
    [
        ({"codec": GZIP}, unpackable(ZSTD), ErrorCode.CORRUPT_MESSAGE),
        ({"codec": GZIP}, make_batch()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        ({"codec": GZIP, "message_bytes_max": 400}, of_size(500), ErrorCode.MESSAGE_TOO_LARGE),
        (
            {"codec": NONE, "message_bytes_max": 400},
            of_size(500, GZIP),
            ErrorCode.MESSAGE_TOO_LARGE,
        ),
        ({"codec": SNAPPY, "message_bytes_max": 100}, NOT_SMALLER, ErrorCode.MESSAGE_TOO_LARGE),
        (
            {"codec": LZ4, "decompressed_bytes_max": 400},
            of_size(500, GZIP),
            ErrorCode.MESSAGE_TOO_LARGE,
        ),
        ({"codec": GZIP, "segment_bytes": 400}, of_size(500), ErrorCode.RECORD_LIST_TOO_LARGE),
        (
            {"codec": GZIP, "timestamp_after_ms_max": 5},
            make_batch(timestamps=(1 << 60,)),
            ErrorCode.INVALID_TIMESTAMP,
        ),
    ],
)
def test_refusals(node, threads, policy, batch, code):
    """By the size before and after (`UnifiedLog.append`), and as without a conversion."""
    converting(node, threads, **policy)
    sink = node.append(make_batch(compression=policy["codec"]), batch)
    threads.run()
    assert sink.codes == {0: 0, 1: code}


def test_a_batch_that_the_append_refuses_is_not_converted():
    broken = make_batch()[:-1] + b"?"
    (kept,) = converted([broken], AppendPolicy(codec=GZIP))
    assert kept is broken
    (refused,) = converted([unpackable(GZIP)], AppendPolicy(codec=NONE))
    assert isinstance(refused, RefusedBatch)
    assert refused.failure.error_code == ErrorCode.CORRUPT_MESSAGE


def test_what_becomes_much_larger_is_limited(node, threads, monkeypatch):
    monkeypatch.setattr(module, "CONVERTED_BYTES_MAX", 1500)
    replica = converting(node, threads, NONE)
    sink = node.append(*(of_size(1000, GZIP) for _ in range(4)))
    threads.run()
    assert sink.offsets == {0: 0, 1: 1, 2: -1, 3: -1}
    assert sink.codes[2] == sink.codes[3] == ErrorCode.REQUEST_TIMED_OUT
    assert codecs(replica) == [NONE, NONE]


def test_a_converted_batch_gets_the_log_append_time(node, threads):
    replica = converting(node, threads, ZSTD, log_append_time=True)
    group = group_of(make_batch(timestamps=(1, 2)), sink=Sink(), epoch=EPOCH)
    node.plane.append([group])
    node.clock.now_ms += 50
    threads.run()
    (view,) = iter_batches(stored(replica))
    assert view.crc_ok()
    assert view.compression == ZSTD
    assert view.max_timestamp == group.log_append_time_ms == node.clock.now_ms


def test_a_batch_that_was_sent_twice_is_found_out_after_its_conversion(node, threads):
    replica = converting(node, threads, ZSTD)
    spec = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    for _ in range(2):
        sink = node.append(make_batch(**spec))
        threads.run()
        assert sink.offsets == {0: 0}
    assert replica.log.log_end_offset == 1


def test_control_batches_stay_as_they_are(node, threads):
    replica = converting(node, threads, ZSTD)
    marker = make_batch()
    marker[ATTRIBUTES_AT + 1] |= 0x20
    assert not replica.conversions.take(group_of(marker, epoch=EPOCH))


def test_a_marker_does_not_overtake_what_its_transaction_wrote_before(node, threads):
    """A coordinator's offsets of a transaction may begin it: behind the marker nobody would end it."""
    replica = converting(node, threads, ZSTD)
    heard, answers = [], []
    offsets = NodeGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)))
    batch = make_batch(producer_id=7, producer_epoch=0, transactional=True)
    offsets.batches.append(memoryview(batch))
    offsets.nbytes = len(batch)
    node.plane.append([offsets])
    marker = TransactionMarker(
        producer_id=7, producer_epoch=0, committed=True, coordinator_epoch=0, transaction_version=0
    )
    MarkerWriter(node.plane, TOPIC).write_markers(0, EPOCH, [AwaitedMarker(marker, answers.append)])
    assert not answers, "it waits"
    threads.run()
    assert heard == [([0], None)]
    assert answers == [0]
    controls = [is_control(view.attributes) for view in iter_batches(stored(replica))]
    assert controls == [False, True]
    assert not replica.transactions.open
