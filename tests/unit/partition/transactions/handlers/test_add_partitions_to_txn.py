import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.handlers import add_partitions_to_txn
from tests.unit.partition.transactions.handlers.exchange import Exchange, exists
from tests.unit.partition.transactions.requests import add, batch, batch_codes, codes, one


def ask(x, message, version=3):
    return codes(x.ask(add_partitions_to_txn.handle, message, version, exists=exists))


def ask_batch(x, message, version=5):
    response = x.ask_many(
        add_partitions_to_txn.handle_batch, message, version, x.d.now, exists=exists
    )
    assert response.error_code == 0
    return batch_codes(response)


@pytest.fixture
def x():
    return Exchange(ApiKey.ADD_PARTITIONS_TO_TXN)


@pytest.mark.parametrize("version", range(4))
def test_versions_of_clients(x, version):
    me = x.d.begin()
    assert ask(x, add(me, 1, 0), version) == {1: 0, 0: 0}
    assert x.d.image().client_version == 0
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(x, add((me.producer_id, 9), 0), version) == {0: fenced}


@pytest.mark.parametrize("version", [4, 5])
def test_versions_of_leaders(x, version):
    me, other = x.d.begin(), x.d.begin("other")
    asked = batch(one(me, 0, 1), one(other, 0, name="other"), one((7, 0), 0, name="unknown"))
    assert ask_batch(x, asked, version) == {
        "tx": {0: 0, 1: 0},
        "other": {0: 0},
        "unknown": {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    }
    assert x.d.image().client_version == 2


def test_a_leader_asks_which_partitions_are_there(x):
    me = x.d.begin()
    x.d.add(me)
    assert ask_batch(x, batch(one(me, 0, 1, verify_only=True))) == {
        "tx": {0: 0, 1: ErrorCode.TRANSACTION_ABORTABLE}
    }
    assert x.d.image().partitions == {("t", 0)}
    old = (me.producer_id, me.epoch - 1)
    told = ask_batch(x, batch(one(old, 0, verify_only=True)))
    assert told == {"tx": {0: ErrorCode.PRODUCER_FENCED}}


def test_partitions_that_do_not_exist_keep_all_of_a_transaction_out(x):
    me, other = x.d.begin(), x.d.begin("other")
    told = {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert ask(x, add(me, 0, 2)) == told
    asked = batch(one(me, 0, 2), one(other, 0, name="other"))
    assert ask_batch(x, asked) == {"tx": told, "other": {0: 0}}
    assert x.d.image().partitions == frozenset()


def test_a_shard_that_is_elsewhere_concerns_its_own_transactions(x):
    response = x.codec.decode_response(
        add_partitions_to_txn.handle_batch(
            lambda _key: ErrorCode.NOT_COORDINATOR,
            x.call(batch(one((1, 0), 0)), 5),
            x.d.now,
            exists=exists,
        ),
        0,
        5,
    )
    assert batch_codes(response) == {"tx": {0: ErrorCode.NOT_COORDINATOR}}
