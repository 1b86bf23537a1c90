"""Produce of transactions: what leaders are told of them, and who may write them."""

import pytest

from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.routing.client import ClientInfo
from highwater.hop.append import Failure, TransactionalWrite
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import ATTRIBUTES_AT, MAGIC, MAGIC_AT, TRANSACTIONAL_BIT
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType
from tests.unit.gateway.core.shape_frames import produce_frame
from tests.unit.gateway.data_plane.produce_world import world
from tests.unit.gateway.handlers.fakes import DenySome

VERSIONS = pytest.mark.parametrize("version", [3, 5, 7, 8, 9, 11, 12, 13])


@pytest.fixture
def w():
    with world() as made:
        yield made


def transactional(nbytes=70, bits=TRANSACTIONAL_BIT):
    records = bytearray(nbytes)
    records[MAGIC_AT] = MAGIC
    records[ATTRIBUTES_AT + 1] = bits
    return bytes(records)


@pytest.mark.parametrize("version", range(3, 14))
def test_batches_of_a_transaction_name_it_on_both_ways(w, version):
    for n in range(3):
        w.send(produce_frame(version, transactional_id="payments", records=transactional(70 + n)))
        sink = w.link.batches[0][3]
        assert type(sink).__name__ == ("SinglePartitionReply" if n else "ManyPartitionsReply")
        w.link.answer()
        w.replies(version)
    assert w.link.transactions == [TransactionalWrite("payments", version >= 12)] * 3


@VERSIONS
def test_another_transactional_id_is_another_transaction(w, version):
    ids = ["payments", "orders", None, "payments"]
    for one in ids:
        records = transactional(bits=0) if one is None else transactional()
        w.send(produce_frame(version, transactional_id=one, records=records))
        w.link.answer()
        w.replies(version)
    assert [one and one.transactional_id for one in w.link.transactions] == ids


@VERSIONS
def test_an_id_that_nobody_was_asked_for_is_not_learnt(w, version):
    """Otherwise transactional batches would follow on the short way, where nobody is asked."""
    w.session.client = ClientInfo(w.peer, w.topics_of_client)
    payments = Resource(ResourceType.TRANSACTIONAL_ID, "payments")
    w.produce = ProducePath(DenySome((AclOperation.WRITE, payments))).start
    w.send(produce_frame(version, transactional_id="payments", records=transactional(bits=0)))
    w.link.answer()
    w.replies(version)
    w.send(produce_frame(version, transactional_id="payments", records=transactional()))
    ((_, ((_, _, code, _),)),) = w.replies(version)
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (w.link.batches, w.link.transactions) == ([], [None])


@VERSIONS
def test_transactional_batches_without_an_id_are_refused(w, version):
    w.send(produce_frame(version, records=transactional()))
    ((_, ((_, _, code, offset),)),) = w.replies(version)
    assert (code, offset) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)
    assert w.link.batches == []


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("short", [False, True])
def test_producers_before_11_do_not_know_transaction_abortable(w, version, short):
    def send():
        w.send(produce_frame(version, transactional_id="payments", records=transactional()))

    if short:
        send()
        w.link.answer()
        w.replies(version)
    send()
    w.link.answer(-1, Failure(ErrorCode.TRANSACTION_ABORTABLE))
    ((_, ((_, _, code, _),)),) = w.replies(version)
    older, newer = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE
    assert code == (newer if version >= 11 else older)
