"""A node without other nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.partition.core.replica_effects import ProposeIsr
from highwater.partition.data_plane.replication_port import Alone
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow


def test_a_single_node_follows_no_leader_and_proposes_no_isr(
    tmp_path: Path,
) -> None:
    replica = Node(tmp_path).add()
    assert isinstance(replica.port, Alone)
    follow(replica, 2, EPOCH + 1)
    replica.retire()
    proposal = ProposeIsr(
        attempt=1, leader_epoch=EPOCH, partition_epoch=1, isr=(1,), node_epochs=(7,)
    )
    with pytest.raises(AssertionError, match="is alone, yet proposes"):
        replica.port.propose_isr(replica, proposal)
