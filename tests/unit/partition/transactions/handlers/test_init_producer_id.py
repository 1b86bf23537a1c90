import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.handlers import init_producer_id
from tests.unit.partition.transactions.handlers.exchange import Exchange
from tests.unit.partition.transactions.requests import init, producer_of


def ask(x, message, version=5):
    return x.ask(init_producer_id.handle, message, version)


@pytest.mark.parametrize("version", range(6))
def test_every_version(version):
    x = Exchange(ApiKey.INIT_PRODUCER_ID)
    assert producer_of(ask(x, init(), version)) == (1000, 0)
    assert producer_of(ask(x, init(), version)) == (1000, 1)
    if version >= 3:
        assert producer_of(ask(x, init(producer=(1000, 1)), version)) == (1000, 2)
        fenced = ask(x, init(producer=(1000, 0)), version)
        known = version >= 4
        code = ErrorCode.PRODUCER_FENCED if known else ErrorCode.INVALID_PRODUCER_EPOCH
        assert (fenced.error_code, producer_of(fenced)) == (code, (-1, -1))


@pytest.mark.parametrize("producer", [(-1, 0), (7, -1)])
def test_half_a_producer_is_none(producer):
    x = Exchange(ApiKey.INIT_PRODUCER_ID)
    assert ask(x, init(producer=producer)).error_code == ErrorCode.INVALID_REQUEST


def test_an_answer_without_success_names_no_producer():
    x = Exchange(ApiKey.INIT_PRODUCER_ID)
    answer = ask(x, init(timeout_ms=900_001))
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert producer_of(answer) == (-1, -1)
    assert ask(x, init(None)).error_code == ErrorCode.INVALID_REQUEST
    x.d.add(x.d.begin())
    again = ask(x, init())
    assert (again.error_code, producer_of(again)) == (ErrorCode.CONCURRENT_TRANSACTIONS, (-1, -1))
