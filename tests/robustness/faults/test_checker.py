"""The checker finds what it is for, in histories that are made bad by hand."""

from __future__ import annotations

import pytest

from tests.robustness.faults.checker import (
    BACK,
    COMMIT_LOST,
    DUPLICATE,
    FOREIGN_RECORD,
    GAP,
    LOST,
    MOVED,
    REORDERED,
    REUSED,
    UNSETTLED,
    VANISHED,
    committed_at_the_end,
    longest_pause,
    report,
    violations,
)
from tests.robustness.faults.history import (
    FOREIGN,
    UNKNOWN_OFFSET,
    Assigned,
    Committed,
    Committing,
    History,
    Read,
    Step,
    number_in,
    value_of,
)


def good(count: int = 6) -> History:
    """Two partitions, everything acknowledged, read and committed as it should be."""
    history = History(2)
    for partition in range(2):
        history.sent[partition] = count
        history.acknowledged[partition] = {n: n for n in range(count)}
        history.stored[partition] = [(n, n) for n in range(count)]
        history.steps["reader"].append(Assigned(partition, 0))
        history.steps["reader"] += [Read(partition, n, n) for n in range(count)]
        steps = history.steps["group"]
        steps += [Assigned(partition, -1), *(Read(partition, n, n) for n in range(3))]
        steps += [Committing(partition, 3), Committed(partition, 3), Assigned(partition, -1)]
        steps += [Read(partition, n, n) for n in range(3, count)]
    return history


def kinds(history: History) -> set[str]:
    return {violation.kind for violation in violations(history)}


def test_a_good_history_has_no_violations() -> None:
    assert violations(good()) == []
    assert report([]) == ""


def test_a_record_without_an_outcome_is_unsettled() -> None:
    history = good()
    history.sent[0] = 7
    assert kinds(history) == {UNSETTLED}
    history.failed[0][6] = "timed out"
    assert kinds(history) == set()


def test_a_failed_record_may_be_in_the_log() -> None:
    history = good()
    history.failed[1][5] = "timed out"
    del history.acknowledged[1][5]
    assert kinds(history) == set()


def test_lost() -> None:
    history = good()
    history.stored[1].pop()
    assert kinds(history) == {LOST, VANISHED}
    assert "record 5 was acknowledged at 5" in report(violations(history))


def test_lost_in_the_middle_with_its_offset_given_to_the_next() -> None:
    history = good()
    history.stored[0] = [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5)]
    assert {LOST, MOVED, REUSED} <= kinds(history)


def test_duplicate() -> None:
    history = good()
    history.stored[0].append((6, 5))
    assert kinds(history) == {DUPLICATE}


def test_duplicate_of_an_earlier_record_is_not_also_reordered() -> None:
    history = good()
    history.stored[0].append((6, 2))
    assert kinds(history) == {DUPLICATE}


def test_reordered() -> None:
    history = History(1)
    history.sent[0] = 3
    history.acknowledged[0] = {0: 0, 2: 1, 1: 2}
    history.stored[0] = [(0, 0), (1, 2), (2, 1)]
    assert kinds(history) == {REORDERED}


def test_an_offset_that_is_used_again_with_another_record() -> None:
    history = good()
    history.steps["reader"][3] = Read(0, 2, 4)
    assert kinds(history) == {REUSED, VANISHED}


def test_an_acknowledgement_with_anothers_offset() -> None:
    history = good()
    history.acknowledged[0][4] = 3
    assert kinds(history) == {MOVED, REUSED}


def test_acknowledgements_without_an_offset() -> None:
    history = good()
    history.acknowledged[0] |= {3: UNKNOWN_OFFSET, 4: UNKNOWN_OFFSET}
    assert kinds(history) == set()
    history.stored[0].pop(4)
    assert LOST in kinds(history)


def test_a_consumer_that_goes_back() -> None:
    history = good()
    history.steps["reader"].append(Read(1, 2, 2))
    assert kinds(history) == {BACK}


def test_a_consumer_that_skips() -> None:
    history = good()
    history.steps["reader"].remove(Read(0, 3, 3))
    assert kinds(history) == {GAP}


def test_a_gap_in_the_log() -> None:
    history = good()
    history.stored[0] = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (6, 5)]
    assert {GAP, MOVED} <= kinds(history)


def test_a_log_that_does_not_begin_at_0() -> None:
    history = good()
    history.stored[0].pop(0)
    assert {GAP, LOST} <= kinds(history)


@pytest.mark.parametrize("number", [FOREIGN, 99])
def test_foreign_records(number: int) -> None:
    history = good()
    history.stored[0].append((6, number))
    assert kinds(history) == {FOREIGN_RECORD}


def test_a_record_that_was_read_damaged() -> None:
    history = good()
    history.steps["reader"][2] = Read(0, 1, FOREIGN)
    assert kinds(history) == {FOREIGN_RECORD, REUSED}


def test_what_was_read_before_it_was_committed_vanishes() -> None:
    history = good()
    history.steps["reader"].append(Read(1, 6, 6))
    history.sent[1] = 7
    history.failed[1][6] = "timed out"
    assert kinds(history) == {VANISHED}


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_a_group_that_does_not_go_on_where_it_committed(offset: int) -> None:
    history = good()
    steps: list[Step] = [Assigned(0, -1), Read(0, 0, 0), Read(0, 1, 1), Read(0, 2, 2)]
    history.steps["group"] = [*steps, Committing(0, 3), Committed(0, 3), Assigned(0, -1)]
    history.steps["group"] += [Read(0, n, n) for n in range(offset, 6)]
    assert kinds(history) == {COMMIT_LOST}


@pytest.mark.parametrize("offset", [2, 3])
def test_an_unconfirmed_commit_may_hold_or_not(offset: int) -> None:
    history = good()
    steps: list[Step] = [
        Assigned(0, -1),
        Read(0, 0, 0),
        Read(0, 1, 1),
        Committing(0, 2),
        Committed(0, 2),
    ]
    history.steps["group"] = [*steps, Read(0, 2, 2), Committing(0, 3), Assigned(0, -1)]
    history.steps["group"] += [Read(0, n, n) for n in range(offset, 6)]
    assert kinds(history) == set()


def test_an_unconfirmed_commit_that_held_once_holds_from_then_on() -> None:
    history = good()
    steps: list[Step] = [
        Assigned(0, -1),
        Read(0, 0, 0),
        Read(0, 1, 1),
        Committing(0, 2),
        Committed(0, 2),
    ]
    steps += [Read(0, 2, 2), Committing(0, 3), Assigned(0, -1), Read(0, 3, 3), Assigned(0, -1)]
    history.steps["group"] = [*steps, *(Read(0, n, n) for n in range(2, 6))]
    assert kinds(history) == {COMMIT_LOST}
    history.steps["group"] = [*steps, *(Read(0, n, n) for n in range(3, 6))]
    assert kinds(history) == set()


def test_an_unconfirmed_commit_that_did_not_hold_never_does() -> None:
    history = good()
    steps: list[Step] = [
        Assigned(0, -1),
        Read(0, 0, 0),
        Read(0, 1, 1),
        Committing(0, 2),
        Assigned(0, -1),
    ]
    steps += [Read(0, 0, 0), Assigned(0, -1)]
    history.steps["group"] = [*steps, *(Read(0, n, n) for n in range(2, 6))]
    assert kinds(history) == {COMMIT_LOST}


def test_what_a_group_has_committed_at_the_end() -> None:
    steps: list[Step] = [Assigned(0, -1), Committing(0, 2), Committed(0, 2), Committing(0, 3)]
    assert committed_at_the_end(steps) == {0: {2, 3}}
    assert committed_at_the_end([*steps, Committed(0, 3)]) == {0: {3}}
    assert committed_at_the_end([*steps, Assigned(0, -1), Read(0, 2, 2)]) == {0: {2}}


def test_the_longest_pause() -> None:
    sent = [0.5, 1.2, 1.6, 1.7, 8.9]
    acknowledged = [1.0, 1.5, 4.0, 4.2, 9.0]
    assert longest_pause(sent, acknowledged, since=1.0, until=5.0).seconds == pytest.approx(2.4)
    assert longest_pause(sent, acknowledged, since=2.0, until=5.0) == (2.0, 2.0)
    assert longest_pause(sent, acknowledged, since=4.1, until=9.5).seconds == pytest.approx(0.1)
    assert longest_pause(sent, acknowledged, since=1.0, until=3.0).seconds == pytest.approx(1.4)


def test_records_that_are_never_acknowledged_are_a_pause() -> None:
    assert longest_pause([1.0, 1.5], [1.2], since=1.0, until=9.0).seconds == 7.5
    assert longest_pause([1.0, 1.1], [], since=2.0, until=5.0).seconds == 3.0


def test_who_sends_nothing_waits_for_nothing() -> None:
    assert longest_pause([], [], since=2.0, until=5.0).seconds == 0.0
    assert longest_pause([1.0], [1.2], since=2.0, until=5.0).seconds == 0.0


def test_values_tell_their_records() -> None:
    for number in (0, 1, 2, 3, 1_234_567):
        assert number_in(3, value_of(3, number)) == number
        assert number_in(2, value_of(3, number)) == FOREIGN, "in another partition"
    assert number_in(0, None) == FOREIGN
    assert number_in(0, b"") == FOREIGN
    assert number_in(3, value_of(3, 2)[:-1]) == FOREIGN
    assert number_in(3, b"3:x:") == FOREIGN
