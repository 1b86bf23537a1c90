"""Produce of clients with quotas: what counts, what the client is told, how long it is muted."""

import pytest

from highwater.hop.append import Failure
from highwater.kafka.messages import produce
from tests.unit.gateway.core.shape_frames import produce_frame
from tests.unit.gateway.data_plane.produce_world import world
from tests.unit.gateway.quota.fake_quota import FakeQuota

BOTH_WAYS = pytest.mark.parametrize("short", [False, True])


@pytest.fixture
def w():
    with world() as made:
        yield made


def send(w, version, *, acks=1, short, **answer):
    """Sends a request on the long way or, as the second one, on the short way; its size."""
    if short:
        w.send(produce_frame(version, acks=acks))
        w.link.answer()
        w.run()
        w.wire.sent.clear()
    w.session.quota = quota = FakeQuota(700)
    frame = produce_frame(version, acks=acks)
    w.send(frame)
    w.link.answer(**answer)
    w.run()
    assert quota.counted == [len(frame)]


def told(w, version):
    (frame,) = w.wire.sent
    return produce.decode_response(frame, 9 if version >= 9 else 8, version).throttle_time_ms


@BOTH_WAYS
@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize(("by_node", "in_all"), [(0, 700), (50, 700), (900, 900)])
def test_the_longer_time_is_told_and_the_connection_muted(w, version, short, by_node, in_all):
    send(w, version, short=short, throttle_ms=by_node)
    assert told(w, version) == in_all
    assert w.muted == [in_all]


@BOTH_WAYS
def test_a_batch_that_is_refused_counts(w, short):
    send(w, 9, short=short, failure=Failure(45, "a gap"))
    assert told(w, 9) == 700
    assert w.muted == [700]


@BOTH_WAYS
def test_without_an_answer_the_connection_is_muted(w, short):
    send(w, 9, acks=0, short=short)
    assert w.wire.sent == []
    assert w.muted == [700]
