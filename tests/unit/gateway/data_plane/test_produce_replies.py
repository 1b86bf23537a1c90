"""The answer to a Produce of several partitions is what the codec encodes, by whichever way it is packed."""

from types import SimpleNamespace

import pytest

from highwater.gateway.data_plane.produce_replies import ManyPartitionsReply
from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import produce
from highwater.model.ids import NO_TOPIC_ID
from tests.unit.gateway.core.shape_frames import topic_id_of
from tests.unit.gateway.data_plane.produce_world import world

VERSIONS = pytest.mark.parametrize("version", [3, 8, 9, 12, 13])


class Session:
    """Keeps what is completed."""

    def __init__(self, of):
        self.arrived_ns, self.quota, self.closed = 5, None, False
        self.client, self.shared = of.client, of.shared
        self.expected, self.completed, self.muted = [], [], []
        self.expect, self.mute = self.expected.append, self.muted.append

    def complete(self, reply, answer):
        self.completed.append((reply, answer))


@pytest.fixture
def session():
    with world() as made:
        yield Session(made.session)


def key(version, name):
    return ("", topic_id_of(name)) if version >= 13 else (name, NO_TOPIC_ID)


def stored(start=3, throttle_ms=0):
    return SimpleNamespace(log_append_time_ms=-1, log_start_offset=start, throttle_ms=throttle_ms)


def decoded(version, answer):
    """(topic, partition, error code, base offset) of each partition, and the throttle time."""
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    response = produce.decode_response(answer, 9 if version >= 9 else 8, version)
    found = [
        (
            topic.topic_id if version >= 13 else topic.name,
            one.index,
            one.error_code,
            one.base_offset,
        )
        for topic in response.responses
        for one in topic.partition_responses
    ]
    return found, response.throttle_time_ms


@VERSIONS
@pytest.mark.parametrize("failed", [None, 0, 2, 3])
def test_results_come_in_any_order_and_are_answered_in_that_of_the_request(
    session, version, failed
):
    topics = [(key(version, "orders"), [1, 0]), (key(version, "other"), [0])]
    topics.append((key(version, "orders"), [2]))
    reply = ManyPartitionsReply(session, 100, version, 7, 1, topics)
    assert reply.begin()
    assert session.expected == [reply]
    failure = Failure(ErrorCode.CORRUPT_MESSAGE, "bad")
    for index in (3, 1, 0, 2):
        assert session.completed == []
        if index == failed:
            reply.append_done(index, -1, None, failure)
        else:
            reply.append_done(index, 10 + index, stored(throttle_ms=10 * index), None)
    ((_, answer),) = session.completed
    codes = [ErrorCode.CORRUPT_MESSAGE if index == failed else 0 for index in range(4)]
    offsets = [-1 if index == failed else 10 + index for index in range(4)]
    orders, other = (key(version, name)[version >= 13] for name in ("orders", "other"))
    throttle_ms = 20 if failed == 3 else 30
    assert decoded(version, answer) == (
        [
            (orders, 1, codes[0], offsets[0]),
            (orders, 0, codes[1], offsets[1]),
            (orders, 2, codes[3], offsets[3]),
            (other, 0, codes[2], offsets[2]),
        ],
        throttle_ms,
    )
    assert session.muted == [throttle_ms]
    errors = session.shared.meters.produce.errors
    assert errors == ({} if failed is None else {ErrorCode.CORRUPT_MESSAGE: 1})


@VERSIONS
def test_a_request_without_partitions_is_answered_at_once(session, version):
    reply = ManyPartitionsReply(session, 100, version, 7, 1, [(key(version, "orders"), [])])
    assert not reply.begin()
    ((_, answer),) = session.completed
    assert decoded(version, answer) == ([], 0)


def test_a_result_for_no_place_is_a_bug(session):
    reply = ManyPartitionsReply(session, 100, 9, 7, 1, [(("orders", NO_TOPIC_ID), [0])])
    reply.begin()
    with pytest.raises(IndexError):
        reply.append_done(1, 0, stored(), None)
