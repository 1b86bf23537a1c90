import pytest

from highwater.partition.quota.storage_gate import StorageGate


@pytest.fixture
def gate():
    made = StorageGate()
    made.take(1_000, 100, exhausted=False)
    return made


def test_it_closes_by_itself_when_nothing_is_left(gate):
    gate.charge(99)
    assert not gate.closed
    gate.charge(1)
    assert gate.closed


def test_the_service_closes_and_opens_it(gate):
    gate.take(1_000, 20, exhausted=True)
    assert gate.closed
    gate.take(1_000, 30, exhausted=False)
    assert not gate.closed


def test_bytes_that_the_service_has_not_heard_of_are_not_forgotten(gate):
    gate.charge(80)
    gate.take(1_000, 100, exhausted=False)
    gate.charge(20)
    assert gate.closed
    gate.reported()
    gate.take(1_000, 100, exhausted=False)
    assert not gate.closed


def test_while_the_use_is_not_known_it_goes_on_counting(gate):
    gate.charge(60)
    gate.take(1_000, None, exhausted=False)
    gate.charge(40)
    assert gate.closed
    gate.take(1_200, None, exhausted=False)  # The limit was raised meanwhile.
    assert not gate.closed


def test_without_a_limit_it_is_open(gate):
    gate.charge(500)
    gate.take(None, None, exhausted=False)
    assert not gate.closed
    gate.charge(10**12)
    assert not gate.closed


def test_message_names_the_limit_and_the_use(gate):
    gate.charge(150)
    message = gate.message("shop")
    assert "instance shop" in message
    assert "it uses 1050 of 1000 bytes" in message
