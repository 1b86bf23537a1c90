from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.partition.transactions.handlers import describe_transactions
from tests.unit.partition.transactions.core.dialogue import T0, T1, WALL_MS, key
from tests.unit.partition.transactions.handlers.exchange import Exchange


def ask(x, *names):
    message = DescribeTransactionsRequest(transactional_ids=list(names))
    return x.ask_many(describe_transactions.handle, message, 0).transaction_states


def test_an_open_transaction():
    x = Exchange(ApiKey.DESCRIBE_TRANSACTIONS)
    me = x.d.begin()
    x.d.add(me, T1, T0)
    (state,) = ask(x, "tx")
    assert (state.error_code, state.transactional_id) == (0, "tx")
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch) == me
    assert state.transaction_start_time_ms == WALL_MS
    assert [(topic.topic, list(topic.partitions)) for topic in state.topics] == [("t", [0, 1])]


def test_a_prepared_one_shows_what_has_no_marker():
    x = Exchange(ApiKey.DESCRIBE_TRANSACTIONS)
    me = x.d.begin()
    x.d.add(me, T1, T0)
    x.d.end(me)
    x.d.shard.marker_written(key(), T0)
    (state,) = ask(x, "tx")
    assert state.transaction_state == "PrepareCommit"
    assert [(topic.topic, list(topic.partitions)) for topic in state.topics] == [("t", [1])]


def test_ids_that_are_not_known_here():
    x = Exchange(ApiKey.DESCRIBE_TRANSACTIONS)
    x.d.begin()
    codes = [state.error_code for state in ask(x, "tx", "other", "")]
    assert codes == [0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
    message = DescribeTransactionsRequest(transactional_ids=["tx"])
    body = describe_transactions.handle(lambda _key: ErrorCode.NOT_COORDINATOR, x.call(message, 0))
    (state,) = x.codec.decode_response(body, 0, 0).transaction_states
    assert (state.error_code, state.transactional_id) == (ErrorCode.NOT_COORDINATOR, "tx")
