from __future__ import annotations

import pytest

from tests.bench.acks import AckTimeline


def timeline(*pairs: tuple[float, float]) -> AckTimeline:
    made = AckTimeline()
    for sent_at, acked_at in pairs:
        made.note(sent_at, acked_at)
    return made


def test_an_ack_of_an_earlier_record_does_not_count() -> None:
    acks = timeline((1.0, 1.1), (2.0, 5.1), (3.0, 5.2), (6.0, 6.1))
    assert len(acks) == 4
    # A leader dies at 2.5; the record sent at 2.0 says nothing about its successor.
    assert acks.first_ack_of_later(2.5) == 5.2
    # A record sent exactly at the moment may have been sent before it.
    assert acks.first_ack_of_later(3.0) == 6.1
    assert acks.first_ack_of_later(6.0) is None
    assert AckTimeline().first_ack_of_later(0.0) is None


def test_gaps_reach_into_the_window_and_end_with_it() -> None:
    acks = timeline((0.9, 1.0), (1.9, 2.0), (4.9, 5.0), (5.4, 5.5))
    assert acks.longest_gap(2.5, 6.0) == 3.0  # From 2 to 5: the window begins inside the gap.
    assert acks.longest_gap(5.0, 5.6) == 0.5
    assert acks.longest_gap(5.0, 9.0) == 3.5  # No acknowledgement from 5.5 on.
    assert acks.longest_gap(2.0, 3.0) == 1.0  # The gap continues after the window.


def test_a_window_before_the_first_ack_is_one_gap() -> None:
    assert AckTimeline().longest_gap(1.0, 4.0) == 3.0
    assert timeline((2.0, 3.5)).longest_gap(1.0, 4.0) == 2.5
    assert AckTimeline().longest_gap(1.0, 1.0) == 0.0


@pytest.mark.parametrize("late", [(0.5, 3.0), (1.5, 1.0)])
def test_notes_out_of_order_are_refused(late: tuple[float, float]) -> None:
    acks = timeline((1.0, 2.0))
    with pytest.raises(ValueError, match="out of order"):
        acks.note(*late)
