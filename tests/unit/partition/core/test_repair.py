"""Whose records heal a replica, and when one may leave its partition to others."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import PartitionState
from highwater.model.ids import LeaderEpoch, NodeId
from highwater.partition.core import replica_events as on
from highwater.partition.core.isr import IsrState
from highwater.partition.core.repair import (
    Outcome,
    Verdict,
    counts_no_more,
    damaged_parts,
    may_step_back,
    newly_lost,
    nobody_took_over,
    outcome_of_refusal,
    proven,
    refuse_proof,
    refuse_range,
    sources,
    verdict,
)
from tests.unit.partition.core.conversation import Conversation


def state(leader: int, isr: tuple[int, ...], eligible: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(
        partition=0,
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(5),
        partition_epoch=9,
        replicas=(NodeId(1), NodeId(2), NodeId(3)),
        isr=tuple(map(NodeId, isr)),
        eligible_leaders=tuple(map(NodeId, eligible)),
    )


def test_the_leader_is_asked_first_and_nobody_outside_the_isr() -> None:
    assert sources(state(3, (1, 2, 3)), 1, frozenset()) == (3, 2)
    assert sources(state(1, (1, 2, 3)), 1, frozenset({2})) == (3,)
    assert sources(state(1, (1, 3)), 2, frozenset()) == (1, 3)
    assert sources(state(1, (1,)), 1, frozenset()) == ()


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], Verdict.KEEP),
        ([Outcome.DAMAGED], Verdict.KEEP),
        ([Outcome.DAMAGED, Outcome.SILENT], Verdict.RETRY),
        ([Outcome.UNWILLING], Verdict.RETRY),
        ([Outcome.SILENT, Outcome.DIFFERS], Verdict.REPLACE),
        ([Outcome.DIFFERS, Outcome.WHOLE], Verdict.HEALED),
    ],
)
def test_what_follows_from_the_answers(outcomes: list[Outcome], expected: Verdict) -> None:
    assert verdict(dict(enumerate(outcomes))) is expected


def test_who_has_lost_the_same_records_proves_nothing() -> None:
    answers = {2: Outcome.DAMAGED, 3: Outcome.DIFFERS, 4: Outcome.SILENT, 5: Outcome.UNWILLING}
    assert proven(answers) == {3}
    assert outcome_of_refusal(ErrorCode.CORRUPT_MESSAGE) is Outcome.DAMAGED
    assert outcome_of_refusal(ErrorCode.FENCED_LEADER_EPOCH) is Outcome.UNWILLING


def test_a_replica_steps_back_only_for_one_that_lives_and_is_surely_in_sync() -> None:
    isr = IsrState()
    isr.commit(9, (1, 2))
    assert not may_step_back(isr, 1, ())
    assert not may_step_back(isr, 1, (1, 3))
    assert may_step_back(isr, 1, (2,))
    attempt = isr.propose((1,))
    assert not may_step_back(isr, 1, (2,)), "2 may be out of it already"
    isr.unanswered(attempt)
    assert not may_step_back(isr, 1, (2,))
    isr.commit(10, (1, 2))
    assert may_step_back(isr, 1, (2,))


def test_a_damaged_replica_gives_records_but_no_proof() -> None:
    """Another one would step back for it, while it may be about to step back itself."""
    talk = Conversation()
    talk.record(2, 5, 9)
    assert (refuse_range(talk.replica, 5), refuse_proof(talk.replica, 5, whole=True)) == (0, 0)
    assert refuse_proof(talk.replica, 5, whole=False) == ErrorCode.CORRUPT_MESSAGE
    assert refuse_proof(talk.replica, 4, whole=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert refuse_proof(talk.replica, 6, whole=False) == ErrorCode.UNKNOWN_LEADER_EPOCH
    talk.record(2, 5, 10, isr=(2, 3))
    assert refuse_proof(talk.replica, 5, whole=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    talk.hears(on.LogFailed())
    assert refuse_proof(talk.replica, 5, whole=True) == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_counts() -> None:
    assert counts_no_more(state(2, (2, 3)), 1)
    assert not counts_no_more(state(2, (2,), eligible=(1,)), 1)
    assert not counts_no_more(state(-1, (2,)), 1), "2 may be dead"
    assert nobody_took_over(state(-1, (2,)), 4)
    assert not nobody_took_over(state(-1, (2,)), 5), "that was before"
    assert not nobody_took_over(state(2, (2,)), 4)


def test_damage_is_worked_off_a_segment_at_a_time() -> None:
    bases = [0, 10, 20]
    assert damaged_parts([(5, 25)], 0, bases, 30) == [(0, 5, 10), (10, 10, 20), (20, 20, 25)]
    assert damaged_parts([(12, 14), (12, 14)], 0, bases, 30) == [(10, 12, 14)]
    assert damaged_parts([(5, 12)], 11, bases, 30) == [(10, 11, 12)], "the rest was deleted"
    assert damaged_parts([(5, 9)], 10, bases, 30) == []


def test_what_is_left_of_known_damage_is_not_new() -> None:
    known = ((2, 8), (10, 20))
    assert not newly_lost([], known)
    assert not newly_lost([(2, 5), (15, 20)], known)
    assert newly_lost([(2, 8), (8, 9)], known)
    assert newly_lost([(10, 21)], known)
    assert newly_lost([(2, 8)], ())
