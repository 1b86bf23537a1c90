"""Committed and maximal ISR through answers that come, fail to come, or come too late."""

from highwater.partition.core.isr import NO_ATTEMPT, IsrState


def state() -> IsrState:
    isr = IsrState()
    assert isr.commit(3, (1, 2))
    return isr


def test_a_proposal_counts_at_once_and_its_commit_settles() -> None:
    isr = state()
    attempt = isr.propose((1, 3))
    assert isr.maximal == {1, 2, 3}
    assert not isr.may_propose
    assert isr.commit(4, (1, 3))
    assert (isr.committed, isr.maximal, isr.pending) == ((1, 3), {1, 3}, NO_ATTEMPT)
    isr.refused(attempt, outdated=True)
    assert isr.may_propose, "the answer to an attempt that is over"


def test_old_states_are_no_news() -> None:
    isr = state()
    assert not isr.commit(3, (1,))
    assert not isr.commit(2, (1,))
    assert isr.committed == (1, 2)


def test_a_refusal_takes_the_proposal_back() -> None:
    isr = state()
    isr.refused(isr.propose((1, 2, 3)), outdated=False)
    assert isr.maximal == {1, 2}
    assert isr.may_propose


def test_an_outdated_proposal_waits_for_news() -> None:
    isr = state()
    isr.refused(isr.propose((1, 2, 3)), outdated=True)
    assert not isr.may_propose
    isr.commit(4, (1,))
    assert isr.may_propose


def test_unanswered_proposals_stay_until_the_epoch_moves() -> None:
    isr = state()
    isr.unanswered(isr.propose((1, 2, 3)))
    assert isr.doubtful
    isr.refused(isr.propose((1, 2, 4)), outdated=False)
    assert isr.maximal == {1, 2, 3}
    isr.unanswered(99)
    isr.commit(4, (1, 2))
    assert not isr.doubtful
    assert isr.maximal == {1, 2}


def test_attempts_of_another_term_are_others() -> None:
    former = state()
    late = former.propose((1,))
    isr = IsrState(former.attempts)
    isr.commit(7, (1, 2))
    isr.propose((1,))
    isr.refused(late, outdated=True)
    assert isr.pending != NO_ATTEMPT
