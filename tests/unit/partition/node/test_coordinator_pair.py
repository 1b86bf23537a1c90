"""Calls reach the coordinator of their API."""

from types import SimpleNamespace

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.registry import request_codec
from highwater.partition.node.coordinator_pair import CoordinatorPair

TRANSACTIONS = {22, 24, 25, 26, 65, 66}


class Recorder:
    """In place of a coordinator."""

    def __init__(self):
        self.told = []

    def submit(self, call):
        self.told.append(("submit", call.api_key))

    def cancel(self, call):
        self.told.append(("cancel", call.api_key))

    async def stop(self):
        self.told.append("stopped")


def pair_of(groups, transactions):
    return CoordinatorPair(groups=groups, group_log=None, transactions=transactions, state_log=None)


def test_calls_are_split_by_their_apis():
    groups, transactions = Recorder(), Recorder()
    pair = pair_of(groups, transactions)
    for api_key in ApiKey:
        pair.submit(SimpleNamespace(api_key=api_key))
        pair.cancel(SimpleNamespace(api_key=api_key))
    told = {key for what, key in transactions.told if what == "submit"}
    assert told == {key for what, key in transactions.told if what == "cancel"} == TRANSACTIONS
    assert {key for _, key in groups.told} == {int(key) for key in ApiKey} - TRANSACTIONS


async def test_both_stop():
    groups, transactions = Recorder(), Recorder()
    await pair_of(groups, transactions).stop()
    assert groups.told == transactions.told == ["stopped"]


def test_every_api_of_transactions_has_a_codec():
    assert all(request_codec(api_key) is not None for api_key in TRANSACTIONS)
