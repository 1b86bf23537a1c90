"""AlterPartition's checks in Kafka's order."""

from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.core.change_isr import IsrResult, Proposal, alter_partitions
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import NodeId, TopicId
from tests.support.controller_images import (
    changed_partitions,
    image_of,
    node_state,
    topic_state,
)

TOPIC = topic_state("t", [(1, 2, 3)])
DRAINING = replace(node_state(3), draining=True)
IMAGE = image_of([node_state(1), node_state(2), DRAINING, node_state(4)], [TOPIC])


def alter(leader: int = 1, **fields: Any) -> IsrResult:
    values: dict[str, Any] = {
        "topic_id": TOPIC.topic_id,
        "partition": 0,
        "leader_epoch": 5,
        "partition_epoch": 7,
        "isr": (1, 2),
        "isr_node_epochs": (11, 12),
        **fields,
    }
    decision = alter_partitions(IMAGE, NodeId(leader), [Proposal(**values)], lambda _: 2)
    (result,) = decision.result
    assert (decision.delta is None) == (result.refusal is not None)
    return result


def test_a_shrunk_isr_is_committed() -> None:
    result = alter()
    assert result.refusal is None
    assert result.state is not None
    assert (result.state.isr, result.state.partition_epoch) == ((1, 2), 8)
    below = alter(isr=(1,), isr_node_epochs=())
    assert below.state is not None
    assert below.state.eligible_leaders == (2, 3)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic_id": TopicId(bytes(16))}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 4, "partition_epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader": 2}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": (1, 4)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 1)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (2,), "isr_node_epochs": (12,)}, ErrorCode.INVALID_REQUEST),
        ({"isr_node_epochs": (11,)}, ErrorCode.INVALID_REQUEST),
        ({"isr_node_epochs": (11, 99)}, ErrorCode.INELIGIBLE_REPLICA),
        ({"isr": (1, 3), "isr_node_epochs": (11, 13)}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals(fields: dict[str, Any], code: ErrorCode) -> None:
    result = alter(**fields)
    assert result.refusal is not None
    assert result.refusal.code == code
    if code not in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        assert result.state == TOPIC.partitions[0], "the caller learns what is committed"


def test_a_replica_whose_log_failed_is_not_eligible() -> None:
    (partition,) = TOPIC.partitions
    shrunk = replace(TOPIC, partitions=(replace(partition, isr=(NodeId(1),)),))
    image = image_of([node_state(1), node_state(2)], [shrunk])
    proposal = Proposal(
        topic_id=TOPIC.topic_id, partition=0, leader_epoch=5, partition_epoch=7, isr=(1, 2),
        isr_node_epochs=(11, 12),
    )  # fmt: skip
    failed = {NodeId(2): {TOPIC.topic_id: frozenset({0})}}
    refused = alter_partitions(image, NodeId(1), [proposal], lambda _: 1, offline=failed)
    assert refused.result[0].refusal is not None
    assert refused.result[0].refusal.code == ErrorCode.INELIGIBLE_REPLICA
    other = {NodeId(2): {TOPIC.topic_id: frozenset({1})}}
    taken = alter_partitions(image, NodeId(1), [proposal], lambda _: 1, offline=other)
    assert taken.result[0].refusal is None


def test_two_proposals_of_one_partition_build_on_one_another() -> None:
    first = Proposal(
        topic_id=TOPIC.topic_id, partition=0, leader_epoch=5, partition_epoch=7, isr=(1,),
        isr_node_epochs=(),
    )  # fmt: skip
    second = replace(first, partition_epoch=8, isr=(1, 2))
    decision = alter_partitions(IMAGE, NodeId(1), [first, first, second], lambda _: 1)
    codes = [r.refusal.code if r.refusal else 0 for r in decision.result]
    assert codes == [0, ErrorCode.INVALID_UPDATE_VERSION, 0]
    assert decision.delta is not None
    assert changed_partitions(decision.delta)[0].isr == (1, 2)


def test_a_full_isr_completes_a_reassignment() -> None:
    (partition,) = TOPIC.partitions
    moving = replace(
        partition,
        replicas=(NodeId(2), NodeId(4), NodeId(1)),
        isr=(NodeId(1), NodeId(2)),
        adding_replicas=(NodeId(4),),
        removing_replicas=(NodeId(1),),
    )
    image = image_of([node_state(n) for n in (1, 2, 4)], [replace(TOPIC, partitions=(moving,))])
    proposal = Proposal(
        topic_id=TOPIC.topic_id, partition=0, leader_epoch=5, partition_epoch=7, isr=(1, 2, 4),
        isr_node_epochs=(),
    )  # fmt: skip
    (result,) = alter_partitions(image, NodeId(1), [proposal], lambda _: 2).result
    assert result.refusal is None
    assert result.state is not None
    assert (result.state.replicas, result.state.isr) == ((2, 4), (2, 4))
    assert (result.state.leader, result.state.leader_epoch) == (2, 6)
    assert result.state.partition_epoch == 8
    offline = {NodeId(2): {TOPIC.topic_id: frozenset({0})}}
    (result,) = alter_partitions(image, NodeId(1), [proposal], lambda _: 2, offline=offline).result
    assert result.refusal is not None
    assert result.refusal.code == ErrorCode.INELIGIBLE_REPLICA
