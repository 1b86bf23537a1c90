import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend

METADATA = ("__cluster_metadata", [0])
LEADER, STANDBY, GATEWAY = 1_000_007, 1_000_003, 2_000_001

QUORUM = pb.DescribeQuorumResponse(
    leader_id=LEADER,
    controller_epoch=40,
    revision=52,
    voters=[
        pb.QuorumReplica(
            replica_id=LEADER, name="a", address="10.0.0.1:9190", revision=52,
            reported_ms=9_000, caught_up_ms=9_000,
        ),
        pb.QuorumReplica(
            replica_id=STANDBY, name="b", address="[::1]:9190", revision=52,
            reported_ms=-1, caught_up_ms=-1,
        ),
    ],
    observers=[
        pb.QuorumReplica(replica_id=1, revision=51, reported_ms=8_900, caught_up_ms=8_000),
        pb.QuorumReplica(
            replica_id=GATEWAY, name="g", revision=-1, reported_ms=-1, caught_up_ms=-1
        ),
    ],
)  # fmt: skip


def asking(*topics):
    return DescribeQuorumRequest(
        [
            DescribeQuorumRequestTopicData(
                name, [DescribeQuorumRequestPartitionData(number) for number in numbers]
            )
            for name, numbers in topics
        ]
    )


async def described(version, quorum=QUORUM):
    backend = FakeBackend()
    backend.controller.quorum = quorum
    response = await Client(backend).call(asking(METADATA), version)
    assert response.error_code == 0
    [topic] = response.topics
    [partition] = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA[0], 0)
    assert partition.error_code == 0
    return response, partition


def rows(replicas):
    return [
        (
            one.replica_id,
            one.log_end_offset,
            one.last_fetch_timestamp,
            one.last_caught_up_timestamp,
            one.replica_directory_id,
        )
        for one in replicas
    ]


@pytest.mark.parametrize("version", [1, 2])
async def test_controllers_vote_and_members_observe(version):
    _, partition = await described(version)
    leader = (partition.leader_id, partition.leader_epoch, partition.high_watermark)
    assert leader == (LEADER, 40, 52)
    no_directory = bytes(16)
    assert rows(partition.current_voters) == [
        (LEADER, 52, 9_000, 9_000, no_directory),
        (STANDBY, 52, -1, -1, no_directory),
    ]
    assert rows(partition.observers) == [
        (1, 51, 8_900, 8_000, no_directory),
        (GATEWAY, -1, -1, -1, no_directory),
    ]


async def test_version_0_has_no_times():
    _, partition = await described(0)
    assert [row[:4] for row in rows(partition.current_voters)] == [
        (LEADER, 52, -1, -1),
        (STANDBY, 52, -1, -1),
    ]


async def test_version_2_has_the_addresses_of_voters():
    response, _ = await described(2)
    assert [
        (node.node_id, [(one.name, one.host, one.port) for one in node.listeners])
        for node in response.nodes
    ] == [
        (LEADER, [("CONTROLLER", "10.0.0.1", 9190)]),
        (STANDBY, [("CONTROLLER", "::1", 9190)]),
    ]


async def test_a_controller_in_the_same_process_has_no_address():
    voter = pb.QuorumReplica(replica_id=LEADER, address="in-process", revision=5)
    response, _ = await described(2, pb.DescribeQuorumResponse(leader_id=LEADER, voters=[voter]))
    [node] = response.nodes
    assert (node.node_id, list(node.listeners)) == (LEADER, [])


async def test_an_epoch_that_does_not_fit_is_unknown():
    for epoch, told in [(2**31 - 1, 2**31 - 1), (2**31, -1)]:
        _, partition = await described(2, pb.DescribeQuorumResponse(controller_epoch=epoch))
        assert partition.leader_epoch == told


@pytest.mark.parametrize(
    "named",
    [
        [("orders", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [METADATA, ("orders", [0, 1])],
        [METADATA, METADATA],
        [("__cluster_metadata", [])],
        [],
    ],
)
async def test_nothing_else_has_a_quorum(named):
    backend = FakeBackend()
    response = await Client(backend).call(asking(*named), 2)
    assert response.error_code == 0
    told = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in response.topics]
    assert told == named
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    outcomes = {(p.error_code, p.error_message) for t in response.topics for p in t.partitions}
    assert outcomes <= {(unknown, unknown.message)}
    assert backend.controller.requests == []


async def test_without_controller():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(asking(METADATA), 2)
    assert (response.error_code, list(response.topics)) == (ErrorCode.NOT_CONTROLLER, [])


async def test_it_needs_describe_on_the_cluster():
    backend = FakeBackend()
    backend.deny((AclOperation.DESCRIBE, THE_CLUSTER))
    response = await Client(backend).call(asking(METADATA), 2)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (response.error_code, response.error_message) == (code, code.message)
    assert list(response.topics) == []
    assert backend.controller.requests == []
