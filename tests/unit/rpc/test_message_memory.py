from highwater.rpc.message_memory import AssemblyBudget, uncleared


def test_memory_has_its_size_and_can_be_written():
    memory = uncleared(1000)
    assert type(memory) is bytearray
    assert len(memory) == 1000
    memory[:] = bytes(1000)
    assert memory == bytes(1000)


def test_a_budget_is_taken_and_given_back():
    budget = AssemblyBudget(100)
    assert budget.take(60)
    assert not budget.take(41)
    assert budget.take(40)
    budget.give(60)
    assert budget.take(60)
