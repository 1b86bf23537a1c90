"""Produce for several partitions of one topic: the shape reads what the codec reads, and the answer is the same."""

import pytest

from highwater.gateway.data_plane import produce_path
from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from tests.support.controller_images import image_of
from tests.unit.gateway.core.shape_frames import produce_frame
from tests.unit.gateway.data_plane.produce_world import world

VERSIONS = pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
OTHERS = [(1, b"c" * 90), (0, b"e" * 200)]
"""One partition has two batches, as no producer of Kafka sends, but other clients may."""


class Decoder:
    """Counts what the codec decodes."""

    def __init__(self, codec):
        self.codec, self.count = codec, 0

    def decode(self, *request):
        self.count += 1
        return self.codec.decode(*request)


@pytest.fixture
def decoder(monkeypatch):
    counting = Decoder(produce_path._DECODER)
    monkeypatch.setattr(produce_path, "_DECODER", counting)
    return counting


@pytest.fixture
def w():
    with world() as made:
        yield made


@pytest.fixture(params=[None, "one", "several"])
def learnt(request, w):
    """What the connection has sent before."""

    def send_before(version):
        if request.param is not None:
            others = OTHERS if request.param == "several" else ()
            w.send(produce_frame(version, others=others))
            while w.link.batches:
                w.link.answer()
            w.replies(version)
        return request.param

    return send_before


@VERSIONS
def test_every_batch_goes_its_way_and_one_answer_has_all(w, version, learnt, decoder):
    before = learnt(version)
    decoder.count = 0
    w.send(produce_frame(version, correlation_id=9, partition=1, others=OTHERS))
    assert decoder.count == (before is None or version < 9)
    assert [batch for _, _, batch, *_ in w.link.batches] == [b"b" * 70, b"c" * 90, b"e" * 200]
    assert [route.partition for route, *_ in w.link.batches] == [1, 1, 0]
    for base_offset in (5, 6):
        w.link.answer(base_offset)
    assert w.replies(version) == []
    w.link.answer(7, throttle_ms=20)
    told = [("orders", 1, 0, 5), ("orders", 1, 0, 6), ("orders", 0, 0, 7)]
    assert w.replies(version) == [(9, told)]
    assert w.muted == [20]


@VERSIONS
def test_one_failure_is_told_beside_what_was_stored(w, version, learnt):
    learnt(version)
    w.send(produce_frame(version, others=OTHERS))
    w.link.answer(5)
    w.link.answer(failure=Failure(ErrorCode.CORRUPT_MESSAGE, "bad"))
    w.link.answer(7)
    told = [
        ("orders", 0, 0, 5),
        ("orders", 1, ErrorCode.CORRUPT_MESSAGE, -1),
        ("orders", 0, 0, 7),
    ]
    assert w.replies(version) == [(1, told)]


@VERSIONS
@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_partition_that_takes_nothing_keeps_no_other_from_its_batch(
    w, version, learnt, partition, code
):
    learnt(version)
    w.send(produce_frame(version, others=[(partition, b"c" * 90), (1, b"e" * 90)]))
    assert [route.partition for route, *_ in w.link.batches] == [0, 1]
    w.link.answer(5)
    w.link.answer(6)
    told = [("orders", 0, 0, 5), ("orders", partition, code, -1), ("orders", 1, 0, 6)]
    assert w.replies(version) == [(1, told)]


@VERSIONS
@pytest.mark.parametrize("fails", [False, True])
def test_acks_0_is_never_answered(w, version, fails):
    for _ in range(2):
        w.send(produce_frame(version, acks=0, others=OTHERS))
        for number in range(3):
            bad = Failure(ErrorCode.CORRUPT_MESSAGE) if fails and number == 1 else None
            w.link.answer(failure=bad)
        assert w.replies(version) == []
        assert w.session.outstanding == 0
        if fails:
            assert w.session.closed
            return


@VERSIONS
def test_a_deleted_topic_is_unknown(w, version, learnt):
    learnt(version)
    w.routing.apply(image_of(topics=w.topics[1:]))
    w.send(produce_frame(version, others=OTHERS))
    code = ErrorCode.UNKNOWN_TOPIC_ID if version == 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    [(_, told)] = w.replies(version)
    assert [answer[2] for answer in told] == [code] * 3
    assert w.link.batches == []
