import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.handlers import end_txn
from tests.unit.partition.transactions.handlers.exchange import Exchange
from tests.unit.partition.transactions.requests import end, producer_of


def ask(x, message, version=5):
    return x.ask(end_txn.handle, message, version)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_every_version(version, commit):
    x = Exchange(ApiKey.END_TXN)
    me = x.d.begin()
    x.d.add(me)
    answer = ask(x, end(me, commit=commit), version)
    assert answer.error_code == ErrorCode.NONE
    assert producer_of(answer) == ((1000, 1) if version >= 5 else (-1, -1))
    assert x.d.image().state.value == ("PrepareCommit" if commit else "PrepareAbort")
    assert x.d.image().client_version == (2 if version >= 5 else 0)


def test_a_body_that_the_caller_has_decoded_is_not_read_again():
    x = Exchange(ApiKey.END_TXN)
    me = x.d.begin()
    x.d.add(me)

    def handle(shard, call, now):
        call.body, call.request = b"", end_txn.decode_request(call.body, 0, call.api_version)
        return end_txn.handle(shard, call, now)

    assert producer_of(x.ask(handle, end(me, commit=True), 5)) == (1000, 1)


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, ErrorCode.PRODUCER_FENCED),
        (5, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_a_fenced_producer(version, code):
    x = Exchange(ApiKey.END_TXN)
    me = x.d.begin()
    x.d.begin()
    x.d.begin()
    answer = ask(x, end(me), version)
    assert (answer.error_code, producer_of(answer)) == (code, (-1, -1))


def test_only_version_5_aborts_what_has_not_begun():
    x = Exchange(ApiKey.END_TXN)
    me = x.d.begin()
    assert ask(x, end(me, commit=False), 4).error_code == ErrorCode.INVALID_TXN_STATE
    answer = ask(x, end(me, commit=False), 5)
    assert (answer.error_code, producer_of(answer)) == (ErrorCode.NONE, (1000, 1))
    assert [each.partitions for each in x.d.prepared] == [frozenset()]
