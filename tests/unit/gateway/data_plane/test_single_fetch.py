"""The short way of a session with one partition, beside the long way that other tests take."""

from types import SimpleNamespace

import pytest

from highwater.gateway.data_plane import fetch_path
from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import AllowAll
from tests.unit.gateway.data_plane.session_client import SessionWorld, found

VERSIONS = pytest.mark.parametrize("version", [7, 9, 11, 12, 13, 15, 18])


@pytest.fixture
def w():
    world = SessionWorld()
    yield world
    world.session.connection_closed()
    assert (world.session.outstanding, world.shared.budget.used) == (0, 0)


@pytest.fixture
def decoded(monkeypatch):
    """The versions of requests that took the long way."""
    versions = []
    before = fetch_path._DECODER

    def decode(session, frame, version):
        versions.append(version)
        return before.decode(session, frame, version)

    monkeypatch.setattr(fetch_path, "_DECODER", SimpleNamespace(decode=decode))
    return versions


@VERSIONS
def test_a_steady_consumer_takes_the_short_way(w, decoded, version):
    session = w.begin(version, {3: 5})
    epoch = 0
    for offset in range(5, 9):
        epoch += 1
        w.ask(version, session, epoch, {3: offset})
        assert w.asked() == {3: offset}
        (work,) = w.links[1].works
        assert (work.max_wait_ms, work.min_bytes, work.max_bytes) == (500, 1, 1 << 20)
        w.links[1].answer(found(offset + 1, b"records"))
        assert w.told(version) == (0, session, [(3, 0, offset + 1, b"records")])
    for _ in range(3):
        epoch += 1
        w.ask(version, session, epoch)
        assert w.asked() == {3: 8}, "what was asked last"
        w.links[1].answer(found(9))
        assert w.told(version) == (0, session, [])
    epoch += 1
    w.ask(version, session, epoch, {3: 9})
    w.links[1].answer(found(9))
    assert w.told(version) == (0, session, []), "an answer without news has no partition"
    assert len(decoded) == 3, "the full fetch, and the first ones with and without a partition"
    assert w.cache.partitions == 1


@VERSIONS
def test_errors_are_told_on_the_short_way(w, decoded, version):
    session = w.begin(version, {3: 5})
    for epoch in (1, 2, 3):
        w.ask(version, session, epoch, {3: 5})
        w.links[1].answer(FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE))
        code = ErrorCode.OFFSET_OUT_OF_RANGE
        assert w.told(version) == (0, session, [(3, code, -1, b"")])
    assert len(decoded) == 2
    w.ask(version, session, 4, {3: 5})
    w.links[1].answer(found(9))
    assert w.told(version) == (0, session, [(3, 0, 9, b"")])


@VERSIONS
def test_wrong_epochs_and_other_partitions_take_the_long_way(w, version):
    session = w.begin(version, {3: 5})
    for epoch in (1, 2):
        w.ask(version, session, epoch, {3: 5})
        w.links[1].answer(found(9))
        w.told(version)
    w.ask(version, session, 2, {3: 5})
    assert w.told(version) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, [])
    w.ask(version, session, 3, {0: 6})
    assert w.asked() == {3: 5, 0: 6}
    w.links[1].answer(found(9), found(9))
    assert w.told(version) == (0, session, [(0, 0, 9, b"")])
    w.ask(version, session, 4, {3: 7})
    assert w.asked() == {3: 7, 0: 6}, "it is not alone any more"
    w.links[1].answer(found(9), found(9))
    assert w.told(version) == (0, session, [])
    w.ask(version, session, 5, forget=[0])
    w.links[1].answer(found(9))
    assert w.told(version) == (0, session, [])
    w.ask(version, session, 6, {3: 8})
    assert w.asked() == {3: 8}
    w.links[1].answer(found(9))
    assert w.told(version) == (0, session, [])


def test_another_partition_with_the_same_number_is_another_one(w):
    session = w.begin(12, {3: 5})
    for epoch in (1, 2):
        w.ask(12, session, epoch, {3: 5})
        w.links[1].answer(found(9))
        w.told(12)
    w.ask(12, session, 3, {3: 0}, topic="many")
    (work,) = w.links[1].works
    assert len({asked.topic_id for asked in work.partitions}) == 2
    w.links[1].answer(found(9), found(9))
    assert w.told(12) == (0, session, [(3, 0, 9, b"")])


def test_a_session_that_has_ended_is_not_found_on_the_short_way(w):
    w.authorize(AllowAll(), slots=1, eviction_ms=-1)
    session = w.begin(12, {3: 5})
    for epoch in (1, 2):
        w.ask(12, session, epoch, {3: 5})
        w.links[1].answer(found(9))
        w.told(12)
    w.shared.now_ms += 1
    first = w.connect()
    w.begin(12, {0: 5})
    w.session.connection_closed()
    w.use(first)
    for offsets in ({3: 5}, {}):
        w.ask(12, session, 3, offsets)
        assert w.told(12) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])


def test_a_moved_leader_is_found_on_the_short_way(w):
    session = w.begin(12, {3: 5})
    for epoch in (1, 2):
        w.ask(12, session, epoch, {3: 5})
        w.links[1].answer(found(9))
        w.told(12)
    w.apply_topics(orders=[(1,), (2,), (3,), (2,)])
    w.ask(12, session, 3, {3: 6})
    assert w.asked(2) == {3: 6}
    w.links[2].answer(found(10))
    assert w.told(12) == (0, session, [(3, 0, 10, b"")])
    w.ask(12, session, 4)
    assert w.asked(2) == {3: 6}
    w.links[2].answer(found(10))
    assert w.told(12) == (0, session, [])


@pytest.mark.parametrize("way", ["short", "long"])
def test_a_waiting_fetch_is_overtaken(w, way):
    session = w.begin(12, {3: 5})
    epoch = 1
    if way == "short":
        w.ask(12, session, epoch, {3: 5})
        w.links[1].answer(found(9))
        w.told(12)
        epoch = 2
    w.ask(12, session, epoch, {3: 5})
    late = w.links[1].works.pop()
    first = w.connect()
    w.ask(12, session, epoch + 1, {3: 5})
    assert w.links[1].cancelled == [late]
    w.links[1].answer(found(9))
    assert w.told(12) == (0, session, [])
    w.session.connection_closed()
    w.use(first)
    assert w.told(12) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session, [])


def test_clients_without_a_session_get_one_when_there_is_room(w, decoded):
    w.authorize(AllowAll(), slots=0)
    for _ in range(3):
        assert w.begin(12, {3: 5}) == 0
    assert len(decoded) == 1, "while there is none, full fetches take the short way"
    w.cache._slots = 1
    assert w.begin(12, {3: 5}) == 1


def test_a_client_that_changes_its_version_in_a_session_is_answered_in_the_one_of_its_request(w):
    session = w.begin(12, {0: 5})
    for epoch in range(1, 7):
        version, offsets = ((12, {0: 5}), (11, {}))[epoch % 2]
        w.ask(version, session, epoch, offsets)
        w.links[1].answer(found(9 + epoch))
        assert w.told(version) == (0, session, [(0, 0, 9 + epoch, b"")])
