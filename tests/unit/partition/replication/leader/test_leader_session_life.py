"""A session's requests, partitions and end, and its requests as signs of life."""

import pytest

from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.replica_events import IneligibleChanged, IsrAnswered
from highwater.partition.replication.leader import leader_session
from highwater.partition.replication.leader.leader_session import HW_LINGER_MS, SIGN_OF_LIFE_MS
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.roles import NODE
from tests.unit.partition.replication.leader_side import (
    FOLLOWER,
    OTHER,
    Leader,
    partitions,
    place,
    told,
)


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


@pytest.fixture
def peer(leader):
    return leader.session()


# ---- the session ----


def test_forgotten_partitions_get_no_answers(leader, peer):
    replica = leader.add_led()
    leader.add_led(1)
    assert peer.ask(place(0, 0), place(0, 1)) is None
    leader.append(make_batch())
    assert partitions(peer.turn()) == [0]
    assert peer.ask(forgotten=[(TOPIC, 0), (TOPIC, 7)]) is None
    assert replica.listeners == ()
    leader.append(make_batch())
    assert peer.turn() is None
    assert len(peer.session) == 1


def test_a_partition_may_be_forgotten_and_asked_for_at_once(leader, peer):
    replica = leader.add_led()
    leader.append(make_batch())
    assert peer.ask(place(1)) is None
    peer.wait(500)
    row = peer.one(place(0), forgotten=[(TOPIC, 0)])
    assert row.fetch_offset == 0
    assert len(row.records) > 0
    assert len(replica.listeners) == 1


def test_the_last_place_in_a_request_counts(leader, peer):
    leader.add_led()
    leader.append(make_batch(), make_batch())
    assert peer.one(place(0), place(1)).fetch_offset == 1


def test_the_next_request_ends_the_wait_of_the_one_before(leader, peer):
    leader.add_led(0)
    leader.add_led(1)
    assert peer.ask(place(0, 0)) is None
    peer.request(place(0, 1))
    assert peer.ended == [(1, [])]
    leader.append(make_batch(), partition=0)
    leader.append(make_batch(), partition=1)
    peer.request()
    number, rows = peer.ended[-1]
    assert (number, partitions(rows)) == (2, [1, 0])
    assert peer.turn() is None


def test_requests_come_in_order(leader, peer):
    peer.request_id = 1
    with pytest.raises(HopFramingError, match="request 2 came after 0"):
        peer.request()


def test_a_stream_has_one_follower(leader, peer):
    peer.ask(max_wait_ms=0)
    peer.node = OTHER
    with pytest.raises(HopFramingError, match="node 3"):
        peer.request()


def test_a_session_has_a_limit(leader, peer, monkeypatch):
    monkeypatch.setattr(leader_session, "SESSION_ROWS_MAX", 2)
    leader.add_led(0)
    leader.add_led(1)
    peer.ask(place(0, 0), place(0, 1))
    peer.wait(500)
    with pytest.raises(HopFramingError, match="more than 2"):
        peer.request(place(0, 2))
    another = leader.session()
    with pytest.raises(HopFramingError, match="3 partitions"):
        another.request(place(0, 0), place(0, 0), place(0, 0))


def test_queues_do_not_keep_removed_rows(leader, peer, monkeypatch):
    monkeypatch.setattr(leader_session, "QUEUED_ROWS_MAX", 3)
    monkeypatch.setattr(leader_session, "ANSWER_ROWS_MAX", 1)
    for n in range(8):
        leader.add_led(n)
        leader.append(make_batch(), partition=n)
    assert partitions(peer.ask(*[place(0, n) for n in range(8)])) == [0]
    gone = [(TOPIC, n) for n in range(1, 7)]
    assert partitions(peer.ask(forgotten=gone)) == [7]
    assert not peer.session._noticed


def test_the_end_of_the_stream_ends_everything(leader, peer):
    replica = leader.add_led()
    peer.request(place(0))
    peer.turn()
    leader.append(make_batch())
    peer.session.close()
    assert replica.listeners == ()
    assert peer.pending_timers == 0
    assert peer.turn() is None
    leader.append(make_batch())
    peer.request()
    assert peer.turn() is None


def test_two_followers_of_one_partition(leader, peer):
    other = leader.session(OTHER)
    replica = leader.add_led()
    peer.ask(place(0))
    other.ask(place(0))
    peer.session.close()
    leader.append(make_batch())
    assert len(other.turn()) == 1
    assert len(replica.listeners) == 1


# ---- signs of life ----


def empty_request(peer):
    """Ends the turn, so that the present request is answered, and sends the next one."""
    peer.wait(500)
    peer.request()


def test_a_refused_follower_is_proposed_again_by_its_fetches_alone(leader, peer):
    replica = leader.add_led(isr=(NODE, OTHER))
    peer.ask(place(0))
    (proposal,) = leader.port.proposals
    assert proposal.isr == (NODE, OTHER, FOLLOWER)
    assert proposal.node_epochs[2] == peer.node_epoch
    replica.handle(IsrAnswered(attempt=proposal.attempt, error_code=ErrorCode.INELIGIBLE_REPLICA))
    assert len(leader.port.proposals) == 1
    empty_request(peer)
    assert len(leader.port.proposals) == 2


def test_life_is_counted_for_waiting_rows_every_now_and_then(leader, peer):
    replica = leader.add_led()
    asked_ms = leader.clock.now_ms
    follower = replica.core.followers[FOLLOWER]
    peer.ask(place(0), max_wait_ms=100)
    peer.wait(100)
    peer.ask(max_wait_ms=100)
    assert follower.fetched_ms == asked_ms
    peer.wait(SIGN_OF_LIFE_MS)
    peer.ask()
    assert follower.fetched_ms == asked_ms + SIGN_OF_LIFE_MS + 100
    assert follower.caught_up_ms == follower.fetched_ms
    leader.append(make_batch())
    assert len(peer.turn()) == 1
    peer.wait(SIGN_OF_LIFE_MS)
    peer.ask(max_wait_ms=0)
    assert follower.fetched_ms == asked_ms + SIGN_OF_LIFE_MS + 100, "an answered row waits no more"


def test_life_is_counted_in_slices(leader, peer, monkeypatch):
    monkeypatch.setattr(leader_session, "COUNTED_AT_ONCE", 2)
    followers = [leader.add_led(n).core.followers[FOLLOWER] for n in range(5)]
    before = leader.clock.now_ms
    peer.ask(*[place(0, n) for n in range(5)])
    empty_request(peer)
    assert sum(f.fetched_ms > before for f in followers) == 2
    peer.turn()
    assert sum(f.fetched_ms > before for f in followers) == 4
    peer.turn()
    assert sum(f.fetched_ms > before for f in followers) == 5
    peer.session.close()
    while peer.soon:
        peer.turn()


def test_a_new_node_epoch_counts_all_places_anew(leader, peer):
    replica = leader.add_led()
    follower = replica.core.followers[FOLLOWER]
    leader.append(make_batch())
    peer.ask(place(1))
    peer.wait(30)
    peer.node_epoch += 1
    peer.ask()
    assert (follower.node_epoch, follower.log_end_offset) == (peer.node_epoch, 1)


def test_a_moved_log_start_is_sent(leader, peer):
    replica = leader.add_led(replicas=(NODE, FOLLOWER))
    leader.append(make_batch(), make_batch())
    peer.ask(place(2))
    peer.wait(HW_LINGER_MS)
    replica.log.deletion.advance_start(1)
    peer.ask()
    peer.wait(500)
    peer.ask()
    (row,) = peer.wait(HW_LINGER_MS)
    assert told(row) == (0, 2, 1, 2)


def test_an_ineligible_node_is_not_proposed(leader, peer):
    replica = leader.add_led(isr=(NODE, OTHER))
    replica.handle(IneligibleChanged(nodes=frozenset({FOLLOWER})))
    peer.ask(place(0))
    assert leader.port.proposals == []
