from functools import partial

import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.handlers import add_offsets_to_txn
from tests.unit.partition.transactions.handlers.exchange import Exchange, exists
from tests.unit.partition.transactions.requests import offsets


def ask(x, message, version=4, number=3):
    handle = partial(
        add_offsets_to_txn.handle,
        partition_of=lambda _instance, _group: TopicPartition("__consumer_offsets", number),
        exists=exists,
    )
    return x.ask(handle, message, version).error_code


@pytest.mark.parametrize("version", range(5))
def test_every_version(version):
    x = Exchange(ApiKey.ADD_OFFSETS_TO_TXN)
    me = x.d.begin()
    assert ask(x, offsets(me), version) == ErrorCode.NONE
    assert x.d.image().partitions == {("__consumer_offsets", 3)}
    assert x.d.image().client_version == 0
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(x, offsets((me.producer_id, 9)), version) == fenced


def test_without_the_groups_partition_the_client_asks_again():
    x = Exchange(ApiKey.ADD_OFFSETS_TO_TXN)
    me = x.d.begin()
    assert ask(x, offsets(me), number=4) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert x.d.image().partitions == frozenset()
