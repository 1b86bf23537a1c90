from highwater.partition.core.producer_budget import ProducerBudget
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
