"""What a session remembers, and what a client has to be told (Kafka's `FetchSessionTest`)."""

import pytest

from highwater.gateway.core.fetch_session import (
    SESSION_ID_MAX,
    CachedPartition,
    FetchSession,
    next_epoch,
)
from highwater.hop.fetch import FetchedPartition, FetchSet
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import FetchRequestFetchPartition


def asked(partition=0, offset=0):
    return FetchRequestFetchPartition(partition=partition, fetch_offset=offset)


def test_after_the_largest_epoch_comes_1():
    assert [next_epoch(epoch) for epoch in (0, 1, SESSION_ID_MAX)] == [1, 2, 1]


@pytest.fixture
def told():
    cached = CachedPartition("orders", bytes(16), asked(), 1)
    assert cached.tell(FetchedPartition(0, 9, 9, 0))
    return cached


def test_the_same_again_is_no_news(told):
    assert not told.tell(FetchedPartition(0, 9, 9, 0))


@pytest.mark.parametrize(
    "changed",
    [
        FetchedPartition(0, 10, 9, 0),
        FetchedPartition(0, 9, 8, 0),
        FetchedPartition(0, 9, 9, 3),
    ],
    ids=["high watermark", "last stable offset", "log start offset"],
)
def test_offsets_that_change_are_told_once(told, changed):
    assert told.tell(changed)
    assert not told.tell(changed)


def test_records_and_divergence_are_always_told(told):
    for _ in range(2):
        assert told.tell(FetchedPartition(0, 9, 9, 0, b"records", 7))
        diverging = FetchedPartition(0, 9, 9, 0)
        diverging.diverging_epoch = 0
        assert told.tell(diverging)


def test_errors_are_always_told_and_so_is_their_end(told):
    for _ in range(2):
        assert told.tell(FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER, 9, 9, 0))
    assert told.tell(FetchedPartition(0, 9, 9, 0))
    assert not told.tell(FetchedPartition(0, 9, 9, 0))


@pytest.mark.parametrize(("name", "topic_id"), [("orders", bytes(16)), ("", b"i" * 16)])
def test_partitions_are_found_by_the_name_or_the_id_of_their_topic(name, topic_id):
    session = FetchSession(7, "owner", not name, 0)
    first = session.ask(name, topic_id, asked(0))
    second = session.ask(name, topic_id, asked(1))
    assert session.ask(name, topic_id, asked(0, offset=5)) is first
    assert first.asked.fetch_offset == 5
    assert list(session.places.values()) == [first, second]
    assert first.place != second.place
    session.forget((name or topic_id, 0))
    session.forget((name or topic_id, 9))
    assert list(session.partitions.values()) == list(session.places.values()) == [second]
    again = session.ask(name, topic_id, asked(0))
    assert again.place not in (first.place, second.place), "no place is used again"


def test_what_is_forgotten_leaves_its_fetch_set_and_its_error():
    session = FetchSession(7, "owner", False, 0)
    there, lost = session.ask("a", bytes(16), asked(0)), session.ask("a", bytes(16), asked(1))
    there.link = "link"
    fetch_set = session.sets["link"] = FetchSet()
    fetch_set.update(there.place, ("a", 0))
    session.errors[lost.place] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    session.forget(("a", 0))
    session.forget(("a", 1))
    assert (fetch_set.asked, session.errors, session.places) == ({}, {}, {})


def test_a_partition_whose_records_were_sent_is_the_last_of_all():
    session = FetchSession(7, "owner", False, 0)
    cached = [session.ask("a", bytes(16), asked(n)) for n in range(3)]
    session.sent(cached[0])
    session.sent(cached[1])
    new = session.ask("a", bytes(16), asked(3))
    in_order = sorted([*cached, new], key=lambda each: each.order)
    assert [each.asked.partition for each in in_order] == [2, 0, 1, 3]


def test_records_that_are_sent_use_up_no_places():
    """Places have 32 bits on the hop, and sessions live for weeks."""
    session = FetchSession(7, "owner", False, 0)
    cached = session.ask("a", bytes(16), asked(0))
    for _ in range(100):
        session.sent(cached)
    assert session.ask("a", bytes(16), asked(1)).place == cached.place + 1
