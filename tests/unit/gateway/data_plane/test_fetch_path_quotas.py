"""Fetch of clients with quotas: what counts and how much it returns; fetches that are held."""

import pytest

from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from tests.unit.gateway.data_plane.fetch_world import fetch_path
from tests.unit.gateway.data_plane.session_client import SessionWorld, found
from tests.unit.gateway.quota.fake_quota import FakeQuota

VERSIONS = pytest.mark.parametrize("version", [7, 11, 12, 13, 18])


@pytest.fixture
def w():
    world = SessionWorld()
    world.muted = []
    world.wire.unmute_after = world.muted.append
    world.path = fetch_path(cache=world.cache)
    world.fetch = world.path.start
    yield world
    world.session.connection_closed()
    assert (world.session.outstanding, world.shared.budget.used) == (0, 0)


def hold(w):
    """The next requests are held, as `LimitedRequests` does for a client over its quota."""
    w.fetch = lambda session, frame: w.path.hold(session, frame, 400)


def go_on(w):
    w.fetch = w.path.start


@VERSIONS
@pytest.mark.parametrize("partitions", [[3], [0, 3]], ids=["short", "long"])
def test_records_count_and_answers_are_small(w, version, partitions):
    offsets = dict.fromkeys(partitions, 5)
    session = w.begin(version, offsets)
    w.session.quota = quota = FakeQuota(0)
    for epoch in range(1, 5):
        w.ask(version, session, epoch, offsets)
        (work,) = w.links[1].works
        assert work.max_bytes == 300
        work.throttle_ms = 20 * (epoch == 2)
        quota.ms = 700 * (epoch == 3)
        w.links[1].answer(*[found(9, b"records")] * len(partitions))
        assert w.response(version).throttle_time_ms == {2: 20, 3: 700}.get(epoch, 0)
    assert quota.counted == [7 * len(partitions)] * 4
    assert w.muted == [20, 700]


def test_a_full_fetch_is_limited_and_counts(w):
    w.session.quota = quota = FakeQuota(700)
    w.ask(11, 0, -1, {0: 5})
    (work,) = w.links[1].works
    assert work.max_bytes == 300
    w.links[1].answer(found(9, b"records"))
    assert w.response(11).throttle_time_ms == 700
    assert quota.counted == [7]


@VERSIONS
def test_a_held_fetch_of_a_session_keeps_its_place(w, version):
    session = w.begin(version, {0: 5})
    hold(w)
    w.ask(version, session, 1, {3: 7})  # A new partition.
    response = w.response(version)
    assert (response.throttle_time_ms, response.session_id, response.responses) == (
        400,
        session,
        [],
    )
    assert w.links[1].works == []
    w.ask(version, session, 2)
    assert w.told(version) == (0, session, [])
    assert w.muted == [400, 400]
    go_on(w)
    w.ask(version, session, 3)
    assert w.asked() == {0: 5, 3: 7}
    w.links[1].answer(found(9, b"records"), found(8))
    assert w.told(version) == (0, session, [(0, 0, 9, b"records"), (3, 0, 8, b"")])


@VERSIONS
def test_a_held_consumer_goes_on_where_it_was(w, version):
    session = w.begin(version, {3: 5})
    w.ask(version, session, 1, {3: 5})
    w.links[1].answer(found(9, b"records"))
    w.told(version)
    hold(w)
    w.ask(version, session, 2, {3: 6})
    assert w.told(version) == (0, session, [])
    go_on(w)
    for epoch in (3, 4):
        w.ask(version, session, epoch, {3: 6})
        assert w.asked() == {3: 6}
        w.links[1].answer(found(9, b"more"))
        assert w.told(version) == (0, session, [(3, 0, 9, b"more")])


@VERSIONS
def test_a_held_full_fetch_begins_no_session(w, version):
    session = w.begin(version, {0: 5})
    hold(w)
    w.ask(version, session, 0, {0: 5})
    response = w.response(version)
    assert (response.throttle_time_ms, response.session_id, response.responses) == (400, 0, [])
    assert len(w.cache) == 0, "the one that it names ends"


@VERSIONS
def test_errors_of_sessions_are_told_to_held_clients_too(w, version):
    session = w.begin(version, {0: 5})
    hold(w)
    w.ask(version, 77, 1)
    assert w.told(version) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    w.ask(version, session, 9)
    assert w.told(version) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    assert w.muted == []


@pytest.mark.parametrize("version", [4, 6])
def test_versions_without_sessions_are_held(w, version):
    hold(w)
    request = fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[])
    header = encode_request_header(1, version, 5, "c")
    w.send(bytearray(header + fetch.encode_request(request, version)))
    response = w.response(version)
    assert (response.throttle_time_ms, response.responses) == (400, [])
    assert w.muted == [400]


def test_a_held_request_that_is_malformed_closes_the_connection(w):
    hold(w)
    w.send(bytearray(encode_request_header(1, 12, 5, "c") + b"\0"))
    assert "malformed" in w.wire.closed
    assert w.muted == []


def test_a_fetch_that_waits_when_the_quota_comes_counts(w):
    session = w.begin(12, {0: 5, 3: 5})
    w.ask(12, session, 1)
    w.session.quota = quota = FakeQuota(9)
    w.links[1].answer(FetchedPartition(0, 9, 9, 0, b"records", 7), found())
    assert w.response(12).throttle_time_ms == 9
    assert quota.counted == [7]
