import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_transactions import ListTransactionsRequest
from highwater.partition.transactions.handlers import list_transactions
from tests.unit.partition.transactions.handlers.exchange import Exchange


@pytest.fixture
def x():
    made = Exchange(ApiKey.LIST_TRANSACTIONS)
    made.d.add(made.d.begin("open"), name="open")
    made.d.begin("empty")
    made.d.pass_ms(5_000)
    return made


def ask(x, version=2, loading=False, **fields):
    call = x.call(ListTransactionsRequest(**fields), version)
    body = list_transactions.handle([x.d.shard], call, loading=loading, wall_ms=x.d.now.wall_ms)
    return x.codec.decode_response(body, 0, version)


def names(response):
    assert response.error_code == 0
    return [state.transactional_id for state in response.transaction_states]


@pytest.mark.parametrize("version", range(3))
def test_every_version(x, version):
    response = ask(x, version)
    assert [(s.transactional_id, s.producer_id, s.transaction_state)
            for s in response.transaction_states] == [
        ("open", 1000, "Ongoing"),
        ("empty", 1001, "Empty"),
    ]  # fmt: skip


def test_filters(x):
    assert names(ask(x, state_filters=["Ongoing"])) == ["open"]
    assert names(ask(x, producer_id_filters=[1001, 7])) == ["empty"]
    assert names(ask(x, state_filters=["Ongoing"], producer_id_filters=[1001])) == []
    assert names(ask(x, duration_filter=6_000)) == ["empty"]


def test_states_that_nobody_knows_are_told(x):
    response = ask(x, state_filters=["Nonsense", "Empty"])
    assert (names(response), list(response.unknown_state_filters)) == (["empty"], ["Nonsense"])
    assert names(ask(x, state_filters=["Nonsense"])) == []


def test_nothing_is_told_while_a_shard_is_loaded(x):
    response = ask(x, loading=True)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert list(response.transaction_states) == []


@pytest.mark.parametrize(("pattern", "code"), [
    (None, 0), ("", 0), ("o.*", ErrorCode.INVALID_REGULAR_EXPRESSION),
])  # fmt: skip
def test_patterns_are_not_served(x, pattern, code):
    assert ask(x, transactional_id_pattern=pattern).error_code == code
