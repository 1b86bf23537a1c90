import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_transactions import ListTransactionsRequest
from highwater.model.steps import finish
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
    steps = list_transactions.handle([x.d.shard], call, loading=loading, wall_ms=x.d.now.wall_ms)
    return x.codec.decode_response(finish(steps), 0, version)


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


@pytest.mark.parametrize(("pattern", "expected"), [
    (None, ["open", "empty"]),
    ("", ["open", "empty"]),
    ("o.*", ["open"]),
    ("op", []),
    (".*p.*", ["open", "empty"]),
    ("[a-m]+pty", ["empty"]),
])  # fmt: skip
def test_a_pattern_matches_the_whole_id(x, pattern, expected):
    assert names(ask(x, transactional_id_pattern=pattern)) == expected


def test_a_pattern_is_one_filter_of_several(x):
    assert names(ask(x, transactional_id_pattern=".*", state_filters=["Empty"])) == ["empty"]
    assert names(ask(x, transactional_id_pattern="open", state_filters=["Empty"])) == []


@pytest.mark.parametrize("pattern", ["(open", "o(?=pen)", "a" * 10_001])
def test_what_is_no_pattern_is_refused(x, pattern):
    response = ask(x, transactional_id_pattern=pattern)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert list(response.transaction_states) == []


def test_many_ids_are_matched_in_steps_and_changes_meanwhile_do_no_harm(x):
    for number in range(1_500):
        x.d.begin(f"id-{number}")
    call = x.call(ListTransactionsRequest(transactional_id_pattern="id-[0-9]+"), 2)
    steps = list_transactions.handle([x.d.shard], call, loading=False, wall_ms=x.d.now.wall_ms)
    next(steps)
    x.d.begin("id-9999")
    response = x.codec.decode_response(finish(steps), 0, 2)
    assert len(names(response)) == 1_500
