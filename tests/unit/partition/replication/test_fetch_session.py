"""What a follower asks a leader for, and when: each partition once, and one request at a time."""

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
from highwater.partition.replication.fetch_session import (
    ANSWER_BYTES_MAX,
    MAX_WAIT_MS,
    PARTITION_BYTES_MAX,
    FetchSession,
)
from highwater.partition.replication.rows import Answered, Asked
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, lead
from tests.unit.partition.replication.channel import answer_to

LEADER = 2


class Follower(Node):
    """Three partitions that follow node 2, and a session with it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.session = FetchSession()
        self.replicas = [self.add(partition, lead=False) for partition in range(3)]
        for replica in self.replicas:
            follow(replica, LEADER, EPOCH)

    def request(self) -> FollowerRequest | None:
        message = self.session.next_request(1, 50)
        return None if message is None else decode_request(message)

    def asked(self) -> list[tuple[int, int]]:
        """(partition, epoch) in the next request, which has to be sent."""
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
    )
    assert node.session.waits
    assert node.request() is None
    assert node.answer(1) == []
    assert not node.session.waits
    assert node.asked() == [], "a sign of life, and a place to wait"
    assert node.request() is None


def test_who_was_answered_is_held_until_asked_again(node: Follower) -> None:
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
    for replica in (a, c):  # The third one is asked still.
        node.session.ask_again(replica)
    assert node.asked() == [(0, EPOCH)]
    node.session.ask_again(b)
    assert node.asked() == [(1, EPOCH)], "the leader's wait is ended for it"
    node.session.remove(a)
    node.session.add(a)
    assert node.request() is None, "but not twice"
    assert node.answer(2, answer_to(place(2), diverging_epoch=1, diverging_end_offset=0)) == [c]
    assert node.asked() == [(0, EPOCH)]


def test_who_holds_everything_does_not_ask(node: Follower) -> None:
    node.session.add(node.replicas[0])
    node.session.add(node.replicas[1], due=False)
    assert node.asked() == [(0, EPOCH)]
    node.answer(1, answer_to(place(0), make_batch()))
    assert node.request() is None
    node.session.ask_again(node.replicas[1])
    assert node.asked() == [(1, EPOCH)]


def test_answers_that_are_not_for_what_is_asked_are_nobodys(node: Follower) -> None:
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


def test_who_may_not_fetch_is_not_asked_for(node: Follower) -> None:
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
    assert request.forgotten == [], "the leader never heard of it"


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


def test_who_is_followed_again_at_once_is_not_forgotten(node: Follower) -> None:
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


def test_nothing_is_owed_without_a_request(node: Follower) -> None:
    with pytest.raises(HopFramingError, match="request 1"):
        node.answer(1)
