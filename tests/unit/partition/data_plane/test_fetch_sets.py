"""Fetch sets at a node: what is read, what ends a wait, and that no news are lost."""

import pytest

from highwater.hop.fetch import READ_COMMITTED, FetchSet, FetchWork
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.data_plane.fetch_sets import FETCHES_PER_SWEEP
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says, lead
from tests.unit.partition.data_plane.transactions import Producer


class SetClient:
    """Fetches a set of a node's partitions, as a gateway's session does; places are numbers."""

    def __init__(self, node, partitions):
        self.node = node
        self.send = node.plane.fetch
        self.set = FetchSet()
        for partition in partitions:
            self.set.update(partition, ask(0, partition))
        self.answers = []

    def fetch(self, *, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=0):
        """Start a fetch; the answer is in `told` when there is one."""
        self.answers = []
        self.work = FetchWork(
            instance=DEFAULT_INSTANCE,
            partitions=[],
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            done=self.answers.append,
            fetch_set=self.set,
        )
        self.send(self.work)
        return self

    @property
    def told(self):
        """{place: (code, high watermark, bytes)} in order, of the only answer; None without one."""
        if not self.answers:
            return None
        (work,) = self.answers
        self.set.taken = True
        found = {
            place: (r.error_code, r.high_watermark, r.nbytes)
            for place, r in zip(work.answered, work.results, strict=True)
        }
        for result in work.results:
            result.release()
        return found


SIZE = len(make_batch())
COMMITTED = {"isolation_level": READ_COMMITTED}


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    for partition in range(4):
        made.add(partition)
    return made


@pytest.fixture
def client(node):
    made = SetClient(node, range(4))
    assert set(made.fetch(max_wait_ms=0).told) == {0, 1, 2, 3}
    return made


@pytest.fixture
def count(node):
    """Records of a batch."""
    node.append(make_batch(), partition=3)
    return node.plane.replicas[ask(0).topic_id, 3].high_watermark


def test_without_news_nothing_is_read(client, node):
    assert client.fetch(max_wait_ms=0).told == {}
    assert client.fetch().told is None
    (timer,) = node.timers
    timer.callback()
    assert client.told == {}
    assert node.plane.waiting_fetches == 0


def test_an_append_ends_the_wait_and_only_it_is_told(client, node):
    client.fetch()
    node.append(make_batch(), partition=2)
    ((place, (code, high_watermark, nbytes)),) = client.told.items()
    assert (place, code, nbytes) == (2, 0, SIZE)
    assert set(client.fetch(max_wait_ms=0).told) == {2}, "until the client asks for what follows"
    client.set.update(2, ask(high_watermark, 2))
    assert client.fetch(max_wait_ms=0).told == {2: (0, high_watermark, 0)}
    assert client.fetch(max_wait_ms=0).told == {}


def test_records_between_two_fetches_are_found(client, node):
    node.append(make_batch(), partition=1)
    assert {p: t[2] for p, t in client.fetch().told.items()} == {1: SIZE}


def test_a_wait_is_for_min_bytes_over_all_partitions(client, node):
    client.fetch(min_bytes=2 * SIZE)
    node.append(make_batch(), partition=1)
    assert client.told is None
    node.append(make_batch(), partition=2)
    assert {p: t[2] for p, t in client.told.items()} == {1: SIZE, 2: SIZE}


def test_partitions_take_turns(client, node):
    """The one whose records were sent longest ago is read first."""
    for partition in (0, 1, 2):
        node.append(make_batch(), make_batch(), partition=partition)
    firsts = [next(p for p, t in client.fetch(max_bytes=10).told.items() if t[2]) for _ in range(6)]
    assert firsts == [0, 1, 2, 0, 1, 2]


def test_what_is_dropped_is_not_told_and_does_not_end_a_wait(client, node):
    node.append(make_batch(), partition=1)
    client.set.drop(1)
    client.fetch()
    node.append(make_batch(), partition=1)
    assert client.told is None
    client.node.plane.cancel_fetch(client.work)


def test_news_that_did_not_reach_the_client_are_told_again(client, node, count):
    client.set.update(3, ask(count, 3))
    client.fetch(max_wait_ms=0)
    assert len(client.answers) == 1
    assert set(client.fetch(max_wait_ms=0).told) == {3}, "nobody has taken the answer before"
    assert client.fetch(max_wait_ms=0).told == {}


def test_the_end_of_a_leader_ends_the_wait(client, node):
    client.fetch()
    follow(node.plane.replicas[ask(0).topic_id, 2], 9, EPOCH + 1)
    assert {p: t[0] for p, t in client.told.items()} == {2: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert set(client.fetch().told) == {2}, "an error is told each time"
    lead(node.plane.replicas[ask(0).topic_id, 2], EPOCH + 2)
    assert client.fetch(max_wait_ms=0).told == {2: (0, 0, 0)}
    assert client.fetch(max_wait_ms=0).told == {}


def test_a_replica_that_is_there_again_is_found(client, node):
    replica = node.plane.replicas.pop((ask(0).topic_id, 1))
    replica.retire()
    assert {p: t[0] for p, t in client.fetch().told.items()} == {
        1: ErrorCode.NOT_LEADER_OR_FOLLOWER
    }
    node.plane.replicas[ask(0).topic_id, 1] = node.add(5)
    assert client.fetch(max_wait_ms=0).told == {1: (0, 0, 0)}
    client.fetch()
    node.append(make_batch(), partition=1)
    assert set(client.told) == {1}


def test_a_log_start_that_moved_is_told(client, node, count):
    client.set.update(3, ask(count, 3))
    client.fetch(max_wait_ms=0)
    assert client.told is not None
    replica = node.plane.replicas[ask(0).topic_id, 3]
    assert replica.delete_records(count) == (0, count)
    assert client.fetch(max_wait_ms=0).told == {3: (0, count, 0)}


def test_now_and_then_all_is_read(client):
    told = [client.fetch(max_wait_ms=0).told for _ in range(FETCHES_PER_SWEEP)]
    assert [len(each) for each in told].count(4) == 1


def test_a_set_that_ends_leaves_its_replicas(client, node):
    replica = node.plane.replicas[ask(0).topic_id, 0]
    assert len(replica.waiters.fetches) == 1
    client.fetch()
    node.plane.end_fetch_set(client.set)
    assert client.told is not None, "a fetch that waits is answered"
    assert replica.waiters.fetches == {}
    assert set(client.fetch(max_wait_ms=0).told) == {0, 1, 2, 3}, "the next one tells everything"


def test_a_second_fetch_ends_the_first(client, node):
    first = client.fetch().answers
    client.fetch()
    assert len(first) == 1
    assert client.told is None
    node.append(make_batch())
    assert set(client.told) == {0}


# ---- high watermarks and last stable offsets ----


@pytest.fixture
def stable(node):
    """A client at read_committed, which knows four empty partitions."""
    made = SetClient(node, range(4))
    assert set(made.fetch(max_wait_ms=0, **COMMITTED).told) == {0, 1, 2, 3}
    return made


def test_a_high_watermark_that_moves_into_a_group_is_told(client, node):
    """The rest of the group may be missing for long, if a follower has stopped."""
    replica = node.plane.replicas[ask(0).topic_id, 2]
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, 9), isr=(1, 9))
    node.append(make_batch(), partition=2, acks=1)
    follower_fetched(replica, 9, 1)
    client.set.update(2, ask(1, 2))
    assert client.fetch(max_wait_ms=0).told == {2: (0, 1, 0)}
    client.fetch()
    node.append(make_batch(), make_batch(), partition=2, acks=1)
    follower_fetched(replica, 9, 2)
    assert client.told is None, "as a wait without a set"
    client.node.timers.pop().callback()
    assert client.told == {2: (0, 2, SIZE)}


def test_a_wait_at_read_committed_ends_with_the_transaction(stable, node):
    producer = Producer(node)
    stable.fetch(**COMMITTED)
    producer.write()
    node.append(make_batch())
    node.turn()
    assert stable.told is None
    producer.end(commit=False)
    node.turn()
    (result,) = stable.answers[0].results
    assert (result.last_stable_offset, result.aborted_transactions) == (3, [(7, 0)])
    assert set(stable.told) == {0}


def test_the_end_of_a_transaction_between_two_fetches_is_found(stable, node):
    producer = Producer(node)
    producer.write()
    stable.fetch(max_wait_ms=0, **COMMITTED)
    assert stable.told == {0: (0, 1, 0)}
    assert stable.fetch(max_wait_ms=0, **COMMITTED).told == {}
    producer.end(commit=True)
    stable.fetch(**COMMITTED)
    assert {p: (t[1], t[2] > 0) for p, t in stable.told.items()} == {0: (2, True)}


def test_a_high_watermark_in_front_of_the_stable_offset_is_told(stable, node):
    """Kafka tells it, too, with the next answer: so applications know how far they are behind."""
    producer = Producer(node)
    producer.write()
    assert stable.fetch(max_wait_ms=0, **COMMITTED).told == {0: (0, 1, 0)}
    stable.fetch(**COMMITTED)
    producer.write()
    node.turn()
    assert stable.told is None
    node.timers.pop().callback()
    assert stable.told == {0: (0, 2, 0)}
    producer.write()
    assert stable.fetch(max_wait_ms=0, **COMMITTED).told == {0: (0, 3, 0)}


def test_a_client_may_change_its_isolation_level(stable, node):
    producer = Producer(node)
    producer.write()
    assert stable.fetch(max_wait_ms=0, **COMMITTED).told == {0: (0, 1, 0)}
    assert stable.fetch(max_wait_ms=0, **COMMITTED).told == {}
    assert stable.fetch().told is not None
    assert stable.answers[0].results[0].last_stable_offset == 0
    stable.set.update(0, ask(1))
    assert set(stable.fetch(max_wait_ms=0).told) == {0}
    stable.set.update(0, ask(0))
    assert stable.fetch(max_wait_ms=0, **COMMITTED).told[0] == (0, 1, 0)
    stable.fetch(**COMMITTED)
    producer.end(commit=True)
    node.turn()
    assert set(stable.told) == {0}


def test_the_last_stable_offset_is_news_at_read_uncommitted_too(client, node):
    producer = Producer(node)
    producer.write()
    client.set.update(0, ask(1))
    assert client.fetch(max_wait_ms=0).told == {0: (0, 1, 0)}
    producer.end(commit=True)
    client.fetch()
    (result,) = client.answers[0].results
    assert (result.high_watermark, result.last_stable_offset) == (2, 2)
