"""Consumers that name their rack: leaders send them to followers, which answer (KIP-392)."""

import pytest

from highwater.hop.fetch import READ_COMMITTED, FetchSet
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import replica_events as on
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says, lead

OTHER, THIRD = 2, 3
SIZE = len(make_batch())


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path, rack_aware=True)


@pytest.fixture
def follower(node):
    """A follower of node 2 with offsets 0 to 3, of which two are known to be committed."""
    replica = node.add(lead=False)
    lead(replica, EPOCH - 1)
    for _ in range(4):
        node.append(make_batch(), epoch=EPOCH - 1)
    follow(replica, OTHER, EPOCH)
    replica.core.high_watermark = 2
    return replica


def told(replica, high_watermark):
    """The leader tells the follower a high watermark."""
    replica.moved(replica.core.replicated(4, 4, high_watermark))


def release(fetched):
    for result in fetched.results:
        result.release()


# ---- followers ----


def test_a_follower_answers_with_what_it_knows_to_be_committed(node, follower):
    fetched = node.fetch(ask(0, epoch=EPOCH), near=(NODE,))
    assert (fetched.codes, fetched.sizes) == ([0], [2 * SIZE])
    (result,) = fetched.results
    assert (result.high_watermark, result.preferred_replica) == (2, -1)
    release(fetched)


def test_only_for_clients_that_are_near(node, follower):
    assert node.fetch(ask(0)).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(
    ("offset", "epoch", "code"),
    [
        (0, EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (0, EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (5, EPOCH, ErrorCode.OFFSET_OUT_OF_RANGE),
        (3, EPOCH, 0),
        (4, -1, 0),
    ],
)
def test_its_refusals_are_kafkas(node, follower, offset, epoch, code):
    """Between its high watermark and the end of its log there is nothing yet; beyond may be records
    that it has not copied, so the client is told to ask the leader.
    """
    fetched = node.fetch(ask(offset, epoch=epoch), near=(NODE,), max_wait_ms=0)
    assert (fetched.codes, fetched.sizes) == ([code], [0])


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_a_fetch_that_waits_at_a_follower_ends_when_it_hears_of_more(node, follower, isolation):
    fetched = node.fetch(ask(2), near=(NODE,), isolation_level=isolation)
    assert fetched.answers == 0
    told(follower, 2)
    node.turn()
    assert fetched.answers == 0
    told(follower, 3)
    node.turn()
    assert fetched.sizes == [SIZE]
    assert fetched.results[0].high_watermark == 3
    release(fetched)


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_it_waits_on_for_min_bytes(node, follower, isolation):
    fetched = node.fetch(ask(2), near=(NODE,), isolation_level=isolation, min_bytes=SIZE + 1)
    told(follower, 3)
    node.turn()
    assert fetched.answers == 0
    told(follower, 4)
    node.turn()
    assert fetched.sizes == [2 * SIZE]
    release(fetched)


def test_a_fetch_set_at_a_follower_is_told_of_more(node, follower):
    asked = FetchSet()
    asked.update(1, ask(2))
    work = node.work(near=(NODE,))
    work.work.fetch_set = asked
    node.plane.fetch(work.work)
    assert work.answers == 0
    told(follower, 3)
    node.turn()
    assert (work.work.answered, work.sizes) == ([1], [SIZE])
    release(work)


def test_a_new_leader_ends_the_wait(node, follower):
    """The client has to hear of the new epoch, as its offset may not be in the new leader's log."""
    fetched = node.fetch(ask(2, epoch=EPOCH), near=(NODE,))
    image_says(follower, leader=THIRD, epoch=EPOCH + 1, replicas=(NODE, OTHER, THIRD))
    node.turn()
    assert fetched.codes == [ErrorCode.FENCED_LEADER_EPOCH]


def test_a_follower_that_becomes_the_leader_answers_on(node, follower):
    fetched = node.fetch(ask(2), near=(NODE,))
    lead(follower, EPOCH + 1)
    node.turn()
    assert fetched.sizes == [2 * SIZE]
    release(fetched)


@pytest.mark.parametrize("event", [on.LogFailed(), on.ReplicaRemoved()])
def test_a_follower_that_ends_says_so(node, follower, event):
    fetched = node.fetch(ask(2), near=(NODE,))
    (follower.fail if isinstance(event, on.LogFailed) else follower.retire)()
    assert fetched.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# ---- leaders ----


@pytest.fixture
def leader(node):
    """Leads offsets 0 to 3; follower 2 has three of them, and follower 3 all."""
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, OTHER, THIRD))
    for _ in range(4):
        node.append(make_batch())
    for member, end in ((OTHER, 3), (THIRD, 4)):
        replica.core.followers[member].keeps(0)
        follower_fetched(replica, member, end)
        replica.core.followers[member].keeps(0)
    return replica


def test_a_leader_names_the_follower_and_sends_no_records(node, leader):
    fetched = node.fetch(ask(1, epoch=EPOCH), near=(OTHER,))
    (result,) = fetched.results
    assert (result.preferred_replica, result.error_code, result.nbytes) == (OTHER, 0, 0)
    assert (result.high_watermark, result.last_stable_offset, result.log_start_offset) == (3, 3, 0)


def test_a_leader_answers_itself_if_no_follower_may(node, leader, tmp_path):
    for near in ((), (NODE, OTHER), (9,)):
        fetched = node.fetch(ask(1), near=near)
        assert (fetched.sizes, fetched.results[0].preferred_replica) == ([2 * SIZE], -1)
        release(fetched)
    fetched = node.fetch(ask(4), near=(OTHER,), max_wait_ms=0)
    assert (fetched.codes, fetched.results[0].preferred_replica) == ([0], -1)


def test_a_leader_that_is_not_to_look_at_racks_does_not(tmp_path):
    node = Node(tmp_path)
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, OTHER))
    node.append(make_batch())
    replica.core.followers[OTHER].keeps(0)
    follower_fetched(replica, OTHER, 1)
    fetched = node.fetch(ask(0), near=(OTHER,))
    assert (fetched.sizes, fetched.results[0].preferred_replica) == ([SIZE], -1)
    release(fetched)


def test_errors_of_the_leader_come_first(node, leader):
    fetched = node.fetch(ask(1, epoch=EPOCH - 1), near=(OTHER,))
    (result,) = fetched.results
    assert (result.error_code, result.preferred_replica) == (ErrorCode.FENCED_LEADER_EPOCH, -1)


def test_in_a_fetch_set_the_follower_is_named_until_the_client_goes(node, leader):
    asked = FetchSet()
    asked.update(1, ask(3))
    for _ in range(2):
        work = node.work(near=(THIRD,))
        work.work.fetch_set = asked
        node.plane.fetch(work.work)
        assert work.results[0].preferred_replica == THIRD
        asked.taken = True
