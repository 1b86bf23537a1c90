"""A follower's requests: each partition once, and one request at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.codec import (
    FollowerRequest,
    decode_request,
    encode_response,
)
from highwater.partition.replication.follower import fetch_session as module
from highwater.partition.replication.follower.fetch_session import (
    ANSWER_BYTES_MAX,
    MAX_WAIT_MS,
    PARTITION_BYTES_MAX,
    FetchSession,
)
from highwater.partition.replication.rows import Answered, Asked
from highwater.partition.replication.throttle import WAIT_MS_MAX, Side, Throttle
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import NODE, follow, image_says, lead
from tests.unit.partition.replication.channel import answer_to

LEADER = 2


class Follower(Node):
    """Three partitions that follow node 2, and a session with it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.throttle = Throttle(Side.FOLLOWER)
        self.session = FetchSession(self.throttle)
        self.replicas = [self.add(partition, lead=False) for partition in range(3)]
        for replica in self.replicas:
            follow(replica, LEADER, EPOCH)

    def limit(self, rate: int | None, *partitions: int) -> None:
        """Throttles these partitions while they catch up."""
        self.throttle._rate = rate
        self.throttle._bucket.set_rate(self.clock.now_ms, rate)
        self.throttle.partitions = frozenset((TOPIC, n) for n in partitions)

    def request(self) -> FollowerRequest | None:
        message = self.session.next_request(1, 50, self.clock.now_ms)
        return None if message is None else decode_request(message)

    def asked(self) -> list[tuple[int, int]]:
        """(partition, epoch) in the next request; fails if there is none."""
        request = self.request()
        assert request is not None
        return [(asked.partition, asked.leader_epoch) for asked in request.asked]

    def answer(self, request_id: int, *rows: Answered) -> list[PartitionReplica | None]:
        return [
            self.session.take(row)
            for row in self.session.answered(encode_response(request_id, rows))
        ]


@pytest.fixture
def node(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def place(partition: int, offset: int = 0, epoch: int = EPOCH, last: int = -1) -> Asked:
    return Asked(TOPIC, partition, epoch, offset, last)


def test_everything_followed_is_asked_once(node: Follower) -> None:
    assert node.request() is None
    for replica in node.replicas:
        node.session.add(replica)
    assert node.request() == FollowerRequest(
        request_id=1,
        node_id=1,
        node_epoch=50,
        asked=[place(0), place(1), place(2)],
        forgotten=[],
        max_wait_ms=MAX_WAIT_MS,
        max_bytes=ANSWER_BYTES_MAX,
        partition_max_bytes=PARTITION_BYTES_MAX,
        bytes_only=[],
    )
    assert node.session.waits
    assert node.request() is None
    assert node.answer(1) == []
    assert not node.session.waits
    assert node.asked() == [], "a sign of life, and a place to wait"
    assert node.request() is None


def test_an_answered_replica_is_not_requested_until_asked_again(node: Follower) -> None:
    a, b, c = node.replicas
    for replica in node.replicas:
        node.session.add(replica)
    node.asked()
    taken = node.answer(
        1,
        answer_to(place(0), make_batch()),
        answer_to(place(1), error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        answer_to(place(2), high_watermark=0),
    )
    assert taken == [a, b, c]
    for replica in (a, c):  # The third one is still in the session.
        node.session.ask_again(replica)
    assert node.asked() == [(0, EPOCH)]
    node.session.ask_again(b)
    assert node.asked() == [(1, EPOCH)], "the leader's wait is ended for it"
    node.session.remove(a)
    node.session.add(a)
    assert node.request() is None, "but not twice"
    assert node.answer(2, answer_to(place(2), diverging_epoch=1, diverging_end_offset=0)) == [c]
    assert node.asked() == [(0, EPOCH)]


def test_a_session_without_askable_replicas_sends_nothing(node: Follower) -> None:
    node.session.add(node.replicas[0])
    node.session.add(node.replicas[1], due=False)
    assert node.asked() == [(0, EPOCH)]
    node.answer(1, answer_to(place(0), make_batch()))
    assert node.request() is None
    node.session.ask_again(node.replicas[1])
    assert node.asked() == [(1, EPOCH)]


def test_answers_for_other_requests_are_ignored(node: Follower) -> None:
    a, b, _ = node.replicas
    node.session.add(a)
    node.session.add(b)
    node.asked()
    follow(a, LEADER, EPOCH + 1)
    node.session.add(a)
    node.session.remove(b)
    rows = [
        answer_to(place(0), make_batch()),
        answer_to(place(1), make_batch()),
        answer_to(place(2), make_batch()),
        answer_to(place(0, epoch=EPOCH + 1), make_batch()),
    ]
    assert node.answer(1, *rows) == [None] * 4
    request = node.request()
    assert request is not None
    assert request.asked == [place(0, epoch=EPOCH + 1)]
    assert request.forgotten == [(TOPIC, 1)]
    row = rows[3]
    assert node.answer(2, row, row) == [a, None], "the second one comes again"


def test_a_replica_that_may_not_fetch_is_not_requested(node: Follower) -> None:
    a, b, _ = node.replicas
    node.session.add(a)
    node.session.add(b)
    lead(a, EPOCH + 1)
    assert node.asked() == [(1, EPOCH)]
    node.session.remove(a)
    assert len(node.session) == 1
    node.answer(1)
    request = node.request()
    assert request is not None
    assert request.forgotten == [], "the leader never got it"


def test_another_replica_of_the_same_partition(node: Follower) -> None:
    old = node.replicas[0]
    node.session.add(old)
    node.asked()
    new = node.add(0, lead=False)
    follow(new, LEADER, EPOCH + 3)
    node.session.add(new)
    node.session.remove(old)
    node.session.ask_again(old)
    assert list(node.session.replicas()) == [new]
    assert node.asked() == [(0, EPOCH + 3)]


def test_a_replica_followed_again_at_once_stays_in_the_session(node: Follower) -> None:
    a = node.replicas[0]
    node.session.add(a)
    node.asked()
    node.session.remove(a)
    node.session.add(a)
    request = node.request()
    assert request is not None
    assert (request.asked, request.forgotten) == ([place(0)], [])


def test_another_connection_begins_anew(node: Follower) -> None:
    a, b, c = node.replicas
    for replica in node.replicas:
        node.session.add(replica)
    node.asked()
    node.answer(1, answer_to(place(1), make_batch()))
    node.session.remove(c)
    node.session.begin()
    assert not node.session.waits
    request = node.request()
    assert request is not None
    assert request.request_id == 1
    assert (request.asked, request.forgotten) == ([place(0)], []), "the second one is held"
    node.session.ask_again(b)
    assert node.asked() == [(1, EPOCH)]
    assert node.answer(1, answer_to(place(0), make_batch())) == [a]


@pytest.mark.parametrize("request_id", [0, 2])
def test_answers_come_in_the_order_of_requests(node: Follower, request_id: int) -> None:
    node.session.add(node.replicas[0])
    node.asked()
    with pytest.raises(HopFramingError, match="answered"):
        node.answer(request_id)


def test_an_answer_without_a_request_is_refused(node: Follower) -> None:
    with pytest.raises(HopFramingError, match="request 1"):
        node.answer(1)


def out_of_sync(replica: PartitionReplica) -> None:
    """The next record has it as a replica outside the ISR."""
    image_says(replica, leader=LEADER, epoch=EPOCH, replicas=(LEADER, NODE), isr=(LEADER,))


def test_no_request_asks_for_more_than_allowed(
    node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASKED_MAX", 2)
    for replica in node.replicas:
        node.session.add(replica)
    assert node.asked() == [(0, EPOCH), (1, EPOCH)]
    assert node.asked() == [(2, EPOCH)], "at once, since more was due"
    assert node.request() is None


# ---- places ----


def test_bytes_are_requested_until_the_replica_has_caught_up(node: Follower) -> None:
    a, b, _ = node.replicas
    node.session = FetchSession(accepts_references=True)
    node.session.add(a)
    node.session.add(b)
    request = node.request()
    assert request is not None
    assert (request.accepts_references, request.bytes_only) == (True, [])
    node.answer(1, answer_to(place(0), make_batch()), answer_to(place(1), make_batch()))
    node.session.ask_for_bytes(a)
    node.session.ask_again(b)
    request = node.request()
    assert request is not None
    assert (len(request.asked), request.bytes_only) == (2, [(TOPIC, 0)])
    end = answer_to(place(0), make_batch(), log_end_offset=0)
    node.answer(2, end)
    node.session.ask_again(a)
    request = node.request()
    assert request is not None
    assert (len(request.asked), request.bytes_only) == (1, []), "it had all that there was"


def test_a_follower_without_file_access_gets_bytes(node: Follower) -> None:
    a = node.replicas[0]
    node.session.add(a)
    node.request()
    node.answer(1, answer_to(place(0), make_batch()))
    node.session.ask_for_bytes(a)
    request = node.request()
    assert request is not None
    assert (request.accepts_references, request.bytes_only) == (False, [])


# ---- the throttle ----


def test_only_replicas_that_catch_up_wait_for_the_throttle(node: Follower) -> None:
    a, b, _ = node.replicas
    for replica in (a, b):
        out_of_sync(replica)
    node.clock.now_ms = 0
    node.limit(1000, 0, 1, 2)
    node.throttle.passed(0, 1050)
    for replica in node.replicas:
        node.session.add(replica)
    assert node.asked() == [(2, EPOCH)], "it is in sync"
    assert node.session.throttled_until_ms == WAIT_MS_MAX
    assert node.throttle.holds == 2
    node.answer(1)
    node.clock.now_ms = 999
    assert node.asked() == [], "a sign of life"
    node.answer(2)
    node.clock.now_ms = 1000
    assert node.asked() == [(0, EPOCH)], "one at a time: it may bring a whole partition's part"
    node.throttle.passed(1000, 2000)
    node.answer(3, answer_to(place(0), make_batch()))
    node.session.ask_again(a)
    assert node.asked() == []
    node.answer(4)
    node.clock.now_ms = 10_000
    assert node.asked() == [(1, EPOCH)], "who has waited longer comes first"


def test_a_replica_no_longer_throttled_is_requested(node: Follower) -> None:
    a = node.replicas[0]
    for replica in node.replicas:
        out_of_sync(replica)
        node.session.add(replica)
    node.limit(0, 0, 1, 2)
    assert node.request() is None
    image_says(a, leader=LEADER, epoch=EPOCH, replicas=(LEADER, NODE))
    node.clock.now_ms += WAIT_MS_MAX
    assert node.asked() == [(0, EPOCH)], "it has come to be in sync"
    node.limit(0, 2)
    node.clock.now_ms += WAIT_MS_MAX
    assert node.asked() == [(1, EPOCH)]
    node.answer(1)
    node.limit(None, 2)
    node.clock.now_ms += WAIT_MS_MAX
    assert node.asked() == [(2, EPOCH)]
    assert node.session.throttled_until_ms is None


def test_a_replica_that_just_had_the_whole_log_is_not_throttled(node: Follower) -> None:
    a = node.replicas[0]
    out_of_sync(a)
    node.session.add(a)
    node.limit(0, 0)
    assert node.session.catches_up((TOPIC, 0))
    node.limit(None)
    node.asked()
    node.answer(1, answer_to(place(0), make_batch(), log_end_offset=0))
    node.limit(0, 0)
    assert not node.session.catches_up((TOPIC, 0))
    node.session.ask_again(a)
    assert node.asked() == [(0, EPOCH)]
    assert not node.session.catches_up((TOPIC, 7)), "nobody's"


def test_a_throttled_replica_can_be_removed_added_and_requested_again(node: Follower) -> None:
    a, b, _ = node.replicas
    for replica in (a, b):
        out_of_sync(replica)
        node.session.add(replica)
    node.limit(0, 0, 1)
    assert node.request() is None
    node.session.remove(a)
    node.session.ask_again(b)
    assert node.request() is None, "it waits still"
    node.session.begin()
    node.limit(None)
    node.clock.now_ms += WAIT_MS_MAX
    assert node.asked() == [(1, EPOCH)]


def test_a_replica_that_is_made_anew_leaves_the_leaders_session_even_if_it_has_to_wait(
    node: Follower,
) -> None:
    """Otherwise the leader keeps counting the former replica's place as a fetch."""
    replica = node.replicas[0]
    for followed in node.replicas:
        node.session.add(followed)
    node.request()
    node.session.remove(replica)
    node.session.add(replica, due=False)
    node.answer(1)
    request = node.request()
    assert request is not None
    assert (request.forgotten, request.asked) == ([(TOPIC, 0)], [])
    node.session.remove(replica)
    node.session.add(replica)
    request = node.request()
    assert request is not None
    assert (request.forgotten, request.asked) == ([], [place(0)])
