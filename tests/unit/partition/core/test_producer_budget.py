import pytest

from highwater.partition.core import producers
from highwater.partition.core.producer_budget import EVICTED_AT_ONCE, ProducerBudget
from highwater.partition.core.producers import ProducerStates
from tests.unit.partition.core.test_producers import append


def test_the_node_s_budget_is_kept_by_the_largest_partition() -> None:
    budget = ProducerBudget(100)
    small, large = ProducerStates(), ProducerStates()
    budget.adopt(small)
    for pid in range(10):
        append(small, 0, 0, 0, pid, pid=pid)
    for pid in range(80):
        append(large, 0, 0, 0, pid, pid=pid)
    budget.adopt(large)
    assert (budget.count, budget.evicted) == (90, 0)
    for pid in range(1000, 1500):
        append(large, 0, 0, 0, pid, pid=pid)
        assert budget.count == len(small) + len(large) <= 100
    assert len(small) == 10
    assert budget.evicted == large.evicted > 400
    list(large.expire(1 << 40, 1))
    assert budget.count == 10
    small.clear()
    assert budget.count == 0
    budget.dismiss(large)
    append(large, 0, 0, 0, 0, pid=1)
    assert budget.count == 0


def test_a_node_without_room_keeps_the_newest() -> None:
    budget = ProducerBudget(1)
    states = [ProducerStates(), ProducerStates()]
    for one in states:
        budget.adopt(one)
    for pid in range(5):
        for one in states:
            append(one, 0, 0, 0, pid, pid=pid)
            assert pid in one
    assert budget.count == sum(len(one) for one in states) <= 2


def begin(states: ProducerStates, pids: range, offset: int = 0) -> None:
    """Each of these producers has a transaction open, and then writes nothing any more."""
    for number, pid in enumerate(pids, start=offset):
        assert states.append_transactional(pid, 0, 0, 0, number, 1000, may_begin=True) < 0


def test_the_limit_is_kept_where_the_largest_partition_has_open_transactions_only() -> None:
    budget = ProducerBudget(100)
    transactional, idempotent = ProducerStates(), ProducerStates()
    budget.adopt(transactional)
    budget.adopt(idempotent)
    begin(transactional, range(60))
    for pid in range(1000, 1200):
        append(idempotent, 0, 0, 0, pid, pid=pid)
        assert budget.count <= 100, "the largest one has nothing to give, another one has"
    assert len(transactional) == 60
    assert 1199 in idempotent


def test_adopted_producers_go_until_only_open_transactions_are_left() -> None:
    budget = ProducerBudget(10)
    states = ProducerStates()
    begin(states, range(3000))
    for pid in range(5000, 8000):
        append(states, 0, 0, 0, pid, pid=pid)
    budget.adopt(states)
    assert budget.count == len(states) == 3000


class Counted(ProducerStates):
    """Counts how often somebody asks whether a producer may go: the cost of a search."""

    __slots__ = ("looked",)

    def __init__(self, limit: int = 100_000) -> None:
        super().__init__(limit)
        self.looked = 0

    def _must_stay(self, producer_id: int) -> bool:
        self.looked += 1
        return super()._must_stay(producer_id)


def test_a_node_full_of_open_transactions_does_not_search_them_for_each_new_producer() -> None:
    budget = ProducerBudget(1000)
    states = Counted()
    budget.adopt(states)
    begin(states, range(3000))
    states.looked = 0
    for pid in range(5000, 6000):
        append(states, 0, 0, 0, pid, pid=pid)
    assert states.looked < 3000 + 2 * 1000, "each of those that stay is passed by once"
    assert budget.count <= 3000 + 10, "a hundredth of the limit"
    for offset, pid in enumerate(range(3000)):
        states.record_marker(pid, 0, 0, 9000 + offset, 2000)
    for pid in range(6000, 6010):
        append(states, 0, 0, 0, pid, pid=pid)
    assert budget.count <= 1000


def test_a_partition_s_limit_is_kept_behind_any_number_of_open_transactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "IN_TRANSACTION_PASSED_MAX", 10)
    states = Counted(limit=1000)
    begin(states, range(900))
    for pid in range(5000, 8000):
        looked = states.looked
        append(states, 0, 0, 0, pid, pid=pid)
        assert states.looked - looked <= 10 + 2 * EVICTED_AT_ONCE
    assert len(states) == 1000
    assert states.looked < 900 + 3000, "each of those that stay is passed by once"
    for pid in range(900):
        assert pid in states


def test_the_limit_is_kept_again_after_those_that_had_to_stay_have_gone_elsewhere() -> None:
    """With their log, as when another node leads it; or because they have expired."""
    budget = ProducerBudget(1000)
    transactional, ended, idempotent = ProducerStates(), ProducerStates(), ProducerStates()
    for states in (transactional, ended, idempotent):
        budget.adopt(states)
    begin(transactional, range(2000))
    begin(ended, range(10_000, 12_000))
    for pid in range(5000, 5500):
        append(idempotent, 0, 0, 0, pid, pid=pid)
    assert budget.count >= 4000, "all of these have to stay"
    budget.dismiss(transactional)
    for offset, pid in enumerate(range(10_000, 12_000)):
        ended.record_marker(pid, 0, 0, 9000 + offset, 2000)
    ended.transactions.commit_to(20_000)
    list(ended.expire(1 << 40, 1))
    assert len(ended) == 0
    for pid in range(20_000, 23_000):
        append(idempotent, 0, 0, 0, pid, pid=pid)
        assert budget.count <= 1000 + 10, "a hundredth of the limit"
