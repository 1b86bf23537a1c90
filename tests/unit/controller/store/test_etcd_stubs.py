"""The client library runs on our stubs."""

import importlib
import sys

from highwater.controller.store.etcd_stubs import etcd3, rpc_pb2


def test_the_library_uses_our_stubs() -> None:
    assert sys.modules["etcd3.etcdrpc"].RangeRequest is rpc_pb2.RangeRequest
    transactions = importlib.import_module("etcd3.transactions")
    compare = (transactions.Mod("k") == 3).build_message()
    assert isinstance(compare, rpc_pb2.Compare)
    assert (compare.key, compare.mod_revision) == (b"k", 3)
    client = etcd3.client(host="127.0.0.1", port=1)
    client.close()


def test_service_names_are_etcds() -> None:
    names = {service.full_name for service in rpc_pb2.DESCRIPTOR.services_by_name.values()}
    assert {"etcdserverpb.KV", "etcdserverpb.Watch", "etcdserverpb.Lease"} <= names
