"""For tests with three replicas: time limits, and how a cluster is healed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from highwater.hop.settings import HopTransport
from tests.support import node_network
from tests.support.etcd import etcd_missing
from tests.support.node_network import NodeNetwork
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

FAST_SESSIONS: Final = {"session_timeout_ms": "2400", "heartbeat_interval_ms": "400"}
SESSION_S: Final = 2.4
ISR_S_MAX: Final = 30.0
RECOVERY_S_MAX: Final = 45.0

SHAPE: Final = Shape(controllers=1, etcd_members=1, settings={"controller": FAST_SESSIONS})
"""One controller and one member of etcd: their faults are tested elsewhere."""


def in_form(shape: Shape, form: str) -> Shape:
    """The same cluster with other processes.

    split: as it is, no node has a gateway in its process; grpcio: with grpc.aio between them.
    combined: every node has. mixed: the first two nodes have, and there are gateways without nodes,
    which do not end when a node does.
    """
    if form == "split":
        return shape
    if form == "grpcio":
        return replace(shape, hop=HopTransport.GRPCIO)
    if form == "combined":
        return replace(shape, combined=shape.nodes, gateways=0)
    assert form == "mixed"
    return replace(shape, combined=2)


@contextmanager
def running(directory: Path, shape: Shape) -> Iterator[ReplicatedCluster]:
    """A running cluster; needs etcd."""
    if why := etcd_missing():
        pytest.skip(why)
    made = ReplicatedCluster(directory, shape)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextmanager
def apart(directory: Path, shape: Shape) -> Iterator[tuple[ReplicatedCluster, NodeNetwork]]:
    """The same with its nodes behind networks of their own; clients and gateways without a node are outside."""
    if why := etcd_missing() or node_network.missing():
        pytest.skip(why)
    network = NodeNetwork()
    made = ReplicatedCluster(directory, shape, hosts=network)
    try:
        made.start()
        yield made, network
    finally:
        made.stop()


def heal(cluster: ReplicatedCluster) -> None:
    """Starts and resumes every process; returns when all replicas are in sync."""
    for name in cluster.names:
        process = cluster.process(name)
        if process.running:
            cluster.resume(name)
        elif not name.startswith("node-"):
            process.start()
    for node in cluster.node_ids:
        if not cluster.process(f"node-{node}").running:
            cluster.restart_node(node)
    wait_until(cluster.is_whole, timeout_s=ISR_S_MAX, what="full ISRs")
