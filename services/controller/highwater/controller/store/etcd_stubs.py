"""Imports the `etcd3` client library with our own stubs.

The library's last release has stubs that today's protobuf refuses to load. It imports them as the
module `etcd3.etcdrpc`. This module first puts stubs generated from our copy of etcd's API in that
place, then imports the library. Import `etcd3` from here, never directly.
"""

import sys
import types

from highwater.etcdrpc import kv_pb2, rpc_pb2, rpc_pb2_grpc


def _stubs() -> types.ModuleType:
    module = types.ModuleType("etcd3.etcdrpc")
    for source in (rpc_pb2, rpc_pb2_grpc):
        for name in vars(source):
            if not name.startswith("_"):
                setattr(module, name, getattr(source, name))
    return module


sys.modules.setdefault("etcd3.etcdrpc", _stubs())

import etcd3  # noqa: E402 - only after its stubs are in place.

__all__ = ["etcd3", "kv_pb2", "rpc_pb2", "rpc_pb2_grpc"]
