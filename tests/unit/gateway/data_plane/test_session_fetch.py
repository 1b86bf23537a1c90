"""The fetches of a session under way: several nodes, clients that leave, and those in a hurry."""

import pytest

from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from tests.unit.gateway.data_plane.session_client import SessionWorld, found

WRONG_EPOCH = ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.fixture
def w():
    world = SessionWorld()
    yield world
    world.session.connection_closed()
    assert (world.session.outstanding, world.shared.budget.used) == (0, 0)


def test_a_fetch_that_is_overtaken_on_another_connection_ends(w):
    session = w.begin(12, {0: 5, 3: 5})
    w.ask(12, session, 1)
    late = w.links[1].works.pop()
    first = w.connect()
    w.ask(12, session, 2)
    second = w.session, w.wire
    w.use(first)
    assert w.links[1].cancelled == [late]
    assert w.told(12) == (WRONG_EPOCH, session, [])
    w.use(second)
    w.links[1].answer(found(), found())
    assert w.told(12) == (0, session, [])
    w.session.connection_closed()
    w.use(first)


def test_a_client_that_disconnects_may_go_on_with_its_session(w):
    session = w.begin(12, {0: 5, 3: 5})
    w.ask(12, session, 1)
    waiting = w.links[1].works.pop()
    w.connect()[0].connection_closed()
    assert w.links[1].cancelled == [waiting]
    w.ask(12, session, 2)
    w.links[1].answer(found(10), found())
    assert w.told(12) == (0, session, [(0, 0, 10, b"")])


def test_several_nodes_share_max_bytes_in_turn(w):
    """The partition whose records were sent longest ago goes first."""
    session = w.begin(12, {0: 5, 1: 5})
    for epoch, first in ((1, 0), (2, 1), (3, 0)):
        w.ask(12, session, epoch, {})
        w.links[1].works[0].max_bytes = w.links[2].works[0].max_bytes = 10
        w.links[1].answer(found(20, b"12345678"))
        w.links[2].answer(found(20, b"12345678"))
        told = {partition: records for partition, _, _, records in w.told(12)[2]}
        assert told[first] == b"12345678"
        assert not told.get(1 - first)


def test_a_node_that_goes_away_is_told_for_all_its_partitions(w):
    session = w.begin(12, {0: 5, 3: 5})
    w.ask(12, session, 1)
    gone = FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    w.links[1].answer(gone, gone)
    assert [t[1] for t in w.told(12)[2]] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


@pytest.mark.parametrize("version", [7, 10, 11, 12])
def test_a_code_that_older_clients_do_not_know(w, version):
    session = w.begin(version, {0: 5, 3: 5})
    w.ask(version, session, 1)
    w.links[1].answer(FetchedPartition(ErrorCode.OFFSET_NOT_AVAILABLE), found(10))
    told = [code for _, code, _, _ in w.told(version)[2]]
    known = version >= 11
    refused = ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told == [refused, 0]
