"""Sessions by heartbeats and streams, with the test's clock."""

import pytest

from highwater.controller.core.liveness import SessionTable


@pytest.fixture
def table() -> SessionTable[int]:
    made: SessionTable[int] = SessionTable(session_timeout_ms=6_000, stream_grace_ms=500)
    made.open(1, epoch=7, now_ms=0)
    return made


def test_silence_ends_a_session(table: SessionTable[int]) -> None:
    assert table.expired(5_999) == []
    assert table.expired(6_000) == [1]
    assert not table.is_live(1, 6_000)


def test_heartbeats_extend_it(table: SessionTable[int]) -> None:
    table.heard(1, now_ms=4_000, applied_revision=3)
    assert table.expired(9_999) == []
    assert table.next_deadline_ms() == 10_000


def test_a_closed_stream_ends_it_soon(table: SessionTable[int]) -> None:
    assert table.stream_opened(1, epoch=7)
    table.stream_closed(1, epoch=7, now_ms=1_000)
    assert table.may_be_replaced(1, 1_000, by_successor=True)
    assert not table.may_be_replaced(1, 1_499, by_successor=False), "it may open the next one"
    assert table.may_be_replaced(1, 1_500, by_successor=False)
    assert table.expired(1_499) == []
    assert table.expired(1_500) == [1]


@pytest.mark.parametrize("sign", ["stream", "heartbeat"])
def test_a_sign_of_life_within_the_grace(table: SessionTable[int], sign: str) -> None:
    table.stream_opened(1, epoch=7)
    table.stream_closed(1, epoch=7, now_ms=1_000)
    if sign == "stream":
        table.stream_opened(1, epoch=7)
    else:
        table.heard(1, now_ms=1_200, applied_revision=0)
    assert table.expired(5_000) == []
    assert not table.may_be_replaced(1, 5_000, by_successor=True)


def test_a_heartbeat_that_was_sent_before_the_end_proves_nothing(table: SessionTable[int]) -> None:
    """It came by another connection than the stream and is read after the stream's end."""
    table.stream_opened(1, epoch=7)
    table.stream_closed(1, epoch=7, now_ms=1_000)
    table.heard(1, now_ms=1_020, applied_revision=0)
    assert table.may_be_replaced(1, 1_030, by_successor=True)
    assert table.expired(1_500) == [1]


def test_only_the_last_stream_counts(table: SessionTable[int]) -> None:
    table.stream_opened(1, epoch=7)
    table.stream_opened(1, epoch=7)
    table.stream_closed(1, epoch=7, now_ms=100)
    assert table.expired(1_000) == []
    table.stream_closed(1, epoch=7, now_ms=1_000)
    assert table.expired(1_500) == [1]


def test_streams_of_former_incarnations_do_not_count(table: SessionTable[int]) -> None:
    table.stream_opened(1, epoch=7)
    table.open(1, epoch=8, now_ms=100)
    assert not table.stream_opened(1, epoch=7)
    table.stream_opened(1, epoch=8)
    table.stream_closed(1, epoch=7, now_ms=200)
    assert table.expired(1_000) == []


def test_a_registration_repeated_keeps_streams(table: SessionTable[int]) -> None:
    table.stream_opened(1, epoch=7)
    table.open(1, epoch=7, now_ms=100)
    table.stream_closed(1, epoch=7, now_ms=200)
    assert table.expired(700) == [1]


def test_a_stalled_controller_forgives(table: SessionTable[int]) -> None:
    table.forgive(10_000)
    assert table.expired(15_999) == []
    assert table.expired(16_000) == [1]


def test_members_with_an_older_image(table: SessionTable[int]) -> None:
    table.open(2, epoch=1, now_ms=0)
    table.heard(1, now_ms=1, applied_revision=10)
    assert table.behind(10) == [2]
    table.heard(2, now_ms=1, applied_revision=11)
    assert table.behind(10) == []
    table.heard(2, now_ms=2, applied_revision=5)
    assert table.behind(11) == [1], "an older heartbeat does not turn time back"


def test_a_session_ends_once(table: SessionTable[int]) -> None:
    table.end(1)
    table.end(1)
    assert (table.expired(99_999), len(table), table.next_deadline_ms()) == ([], 0, None)
    assert table.may_be_replaced(1, 0, by_successor=False)


def test_a_stream_outlives_its_session(table: SessionTable[int]) -> None:
    """A hanging node is fenced, comes back with its old stream, and then dies."""
    table.stream_opened(1, epoch=7)
    table.end(1)
    table.open(1, epoch=7, now_ms=10_000)
    table.stream_closed(1, epoch=7, now_ms=11_000)
    assert table.expired(11_500) == [1]


def test_a_stream_that_begins_without_a_session_counts(table: SessionTable[int]) -> None:
    table.end(1)
    assert table.stream_opened(1, epoch=7)
    table.open(1, epoch=7, now_ms=10_000)
    table.stream_closed(1, epoch=7, now_ms=11_000)
    assert table.expired(11_500) == [1]


def test_a_stream_of_the_incarnation_before_ends_nothing(table: SessionTable[int]) -> None:
    table.stream_opened(1, epoch=7)
    table.open(1, epoch=8, now_ms=10_000)
    assert table.stream_opened(1, epoch=8)
    table.stream_closed(1, epoch=7, now_ms=11_000)
    assert table.expired(11_500) == []


def test_the_end_of_a_process_that_was_never_heard(table: SessionTable[int]) -> None:
    table.open(2, epoch=3, now_ms=0, confirmed=False)
    assert table.unseen(100) == [2]
    assert not table.ended_unseen(1, epoch=7, now_ms=100), "this one was heard"
    assert not table.ended_unseen(2, epoch=2, now_ms=100), "this is another incarnation"
    assert not table.ended_unseen(9, epoch=1, now_ms=100)
    assert table.ended_unseen(2, epoch=3, now_ms=100)
    assert table.unseen(100) == []
    assert table.expired(599) == []
    assert table.expired(600) == [2]
    table.heard(2, now_ms=590, applied_revision=0)
    assert table.expired(600) == []


def test_a_first_heartbeat_begins_a_session() -> None:
    table: SessionTable[int] = SessionTable(session_timeout_ms=6_000, stream_grace_ms=500)
    table.open(1, epoch=7, now_ms=0, confirmed=False)
    assert table.ended_unseen(1, epoch=7, now_ms=1_000)
    table.heard(1, now_ms=1_010, applied_revision=3)
    assert table.is_live(1, 7_009)


def test_the_end_of_a_process_that_was_heard_and_opened_no_stream(table: SessionTable[int]) -> None:
    assert not table.ended_unseen(1, epoch=7, now_ms=1_999), "two heartbeats may be late"
    assert table.stream_opened(1, epoch=7)
    assert table.unseen(5_000) == [], "the end of its stream will tell"
    table.stream_closed(1, epoch=7, now_ms=5_000)
    table.heard(1, now_ms=5_200, applied_revision=0)
    assert table.unseen(7_199) == []
    assert table.unseen(7_200) == [1]
    assert table.ended_unseen(1, epoch=7, now_ms=7_200)
    assert table.expired(7_699) == []
    assert table.expired(7_700) == [1]


def test_only_a_successor_replaces_a_node_that_was_not_heard_yet(table: SessionTable[int]) -> None:
    table.open(2, epoch=1, now_ms=0, confirmed=False)
    assert table.may_be_replaced(2, 1, by_successor=True)
    assert not table.may_be_replaced(2, 1, by_successor=False)
    assert not table.may_be_replaced(1, 1, by_successor=True), "it lives"


def test_reports_are_what_heartbeats_said_and_when(table: SessionTable[int]) -> None:
    table.open(2, epoch=1, now_ms=0)
    table.heard(1, now_ms=100, applied_revision=5)
    table.caught_up(1, now_ms=100)
    table.heard(1, now_ms=200, applied_revision=5)
    table.forgive(1_000)
    reports = {m: (s.reported_ms, s.caught_up_ms) for m, s in table.sessions.items()}
    assert reports == {1: (200, 100), 2: (None, None)}, "not moved by what the controller missed"
    table.open(1, epoch=7, now_ms=300)
    assert (table.sessions[1].reported_ms, table.sessions[1].caught_up_ms) == (200, 100)
    table.open(1, epoch=8, now_ms=400)
    assert (table.sessions[1].reported_ms, table.sessions[1].caught_up_ms) == (None, None)
