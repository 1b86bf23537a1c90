from highwater.rpc.message_memory import AssemblyBudget


def test_a_budget_is_taken_and_given_back():
    budget = AssemblyBudget(100)
    assert budget.take(60)
    assert not budget.take(41)
    assert budget.take(40)
    budget.give(60)
    assert budget.take(60)
