"""A replica steps back because of damage: the effect of each image."""

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.model.cluster import PartitionState
from highwater.model.ids import LeaderEpoch, NodeId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.quarantine import Next, Quarantine
from tests.unit.partition.data_plane.node import Node
from tests.unit.partition.data_plane.roles import image_says

STATE = PartitionState(
    partition=0,
    leader=NodeId(1),
    leader_epoch=LeaderEpoch(4),
    partition_epoch=0,
    replicas=(NodeId(1), NodeId(2)),
    isr=(NodeId(1), NodeId(2)),
)
LED_BY_OTHER = replace(STATE, leader=NodeId(2), leader_epoch=LeaderEpoch(5), isr=(NodeId(2),))


@pytest.fixture
def replica(tmp_path: Path) -> PartitionReplica:
    made = Node(tmp_path).add(lead=False)
    image_says(made, leader=1, epoch=4, replicas=(1, 2))
    return made


def test_a_replica_waits_until_the_controller_knows(replica: PartitionReplica) -> None:
    quarantine = Quarantine()
    assert quarantine.next_step(replica, LED_BY_OTHER, has_log=True) is None
    assert not quarantine.step_back(replica, STATE, ())
    assert quarantine.step_back(replica, STATE, (2,))
    assert replica.failed
    assert quarantine.next_step(replica, STATE, has_log=True) is Next.WAIT
    assert quarantine.next_step(replica, LED_BY_OTHER, has_log=True) is Next.REPLACE
    quarantine.forget(replica)
    assert quarantine.next_step(replica, LED_BY_OTHER, has_log=True) is None


@pytest.mark.parametrize("isr", [(), (1,), (2,)])
def test_a_replica_goes_on_if_no_other_leads(
    replica: PartitionReplica, isr: tuple[int, ...]
) -> None:
    quarantine = Quarantine()
    assert quarantine.step_back(replica, STATE, (2,))
    nobody = replace(LED_BY_OTHER, leader=NodeId(-1), isr=tuple(map(NodeId, isr)))
    assert quarantine.next_step(replica, nobody, has_log=False) is Next.WAIT
    assert quarantine.next_step(replica, nobody, has_log=True) is Next.GO_ON


def test_a_replica_keeps_its_log_in_the_same_leader_epoch(replica: PartitionReplica) -> None:
    quarantine = Quarantine()
    assert quarantine.step_back(replica, STATE, (2,))
    dropped = replace(LED_BY_OTHER, leader_epoch=LeaderEpoch(4))
    assert quarantine.next_step(replica, dropped, has_log=True) is Next.GO_ON
    replica.log.late_writer.writing = True
    assert quarantine.next_step(replica, dropped, has_log=True) is Next.WAIT
