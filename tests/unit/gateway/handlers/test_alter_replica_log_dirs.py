import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import alter_replica_log_dirs as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import (
    OTHER,
    Client,
    FakeBackend,
    image_of,
    node,
    topic,
)

VERSIONS = (1, 2)
ORDERS = topic("orders", (1, 2, 2))
FOREIGN = topic("foreign", (2,), instance=OTHER)


@pytest.fixture
def backend():
    """Node 2 has orders-1 in /a and nothing in /b; /c is offline."""
    made = FakeBackend(image_of(ORDERS, FOREIGN))
    made.links[2].answer_log_dirs = lambda _asked: pb.DescribeLogDirsResponse(
        dirs=[
            pb.LogDirDescription(
                path="/a", replicas=[pb.LogDirReplica(topic_id=ORDERS.topic_id, partition=1)]
            ),
            pb.LogDirDescription(path="/b"),
            pb.LogDirDescription(path="/c", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        ]
    )
    return made


def request_of(**topics_by_dir):
    """`a={"orders": [1]}`: these partitions to /a."""
    return codec.AlterReplicaLogDirsRequest(
        [
            codec.AlterReplicaLogDirsRequestAlterReplicaLogDir(
                f"/{name}",
                [
                    codec.AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(topic_name, numbers)
                    for topic_name, numbers in topics.items()
                ],
            )
            for name, topics in topics_by_dir.items()
        ]
    )


def codes(response):
    return {
        (one.topic_name, partition.partition_index): partition.error_code
        for one in response.results
        for partition in one.partitions
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_replica_that_is_there_already_stays(backend, version):
    response = await Client(backend, node_id=2).call(request_of(a={"orders": [1]}), version)
    assert codes(response) == {("orders", 1): ErrorCode.NONE}
    ((asked, _),) = backend.links[2].asked
    assert [(t.topic_id, list(t.partitions)) for t in asked.topics] == [(ORDERS.topic_id, [1])]


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("b", ErrorCode.INVALID_REQUEST),
        ("c", ErrorCode.KAFKA_STORAGE_ERROR),
        ("elsewhere", ErrorCode.LOG_DIR_NOT_FOUND),
    ],
)
async def test_it_moves_nowhere(backend, directory, expected):
    wanted = request_of(**{directory: {"orders": [1]}})
    response = await Client(backend, node_id=2).call(wanted, 2)
    assert codes(response) == {("orders", 1): expected}


async def test_what_the_broker_does_not_have(backend):
    wanted = request_of(a={"orders": [0, 2, 3, -1], "foreign": [0], "unknown": [0]})
    response = await Client(backend, node_id=2).call(wanted, 2)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == {
        ("orders", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("orders", 2): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("orders", 3): unknown,
        ("orders", -1): unknown,
        ("foreign", 0): unknown,
        ("unknown", 0): unknown,
    }


async def test_the_last_directory_counts(backend):
    wanted = request_of(b={"orders": [1]}, a={"orders": [1]})
    response = await Client(backend, node_id=2).call(wanted, 2)
    assert codes(response) == {("orders", 1): ErrorCode.NONE}


async def test_a_port_of_no_broker_answers_for_the_only_one(backend):
    wanted = request_of(a={"orders": [1]})
    response = await Client(backend).call(wanted, 2)
    assert codes(response) == {("orders", 1): ErrorCode.REPLICA_NOT_AVAILABLE}
    assert not backend.links[2].asked
    alone = FakeBackend(image_of(ORDERS, FOREIGN, nodes=[node(2)]))
    alone.links[2].answer_log_dirs = backend.links[2].answer_log_dirs
    assert codes(await Client(alone).call(wanted, 2)) == {("orders", 1): ErrorCode.NONE}


async def test_an_unreachable_broker(backend):
    def away(_asked):
        raise UnreachableError("node 2: gone")

    backend.links[2].answer_log_dirs = away
    response = await Client(backend, node_id=2).call(request_of(a={"orders": [0, 1]}), 2)
    assert set(codes(response).values()) == {ErrorCode.BROKER_NOT_AVAILABLE}


async def test_without_the_cluster_nothing_is_asked(backend):
    backend.deny((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend, node_id=2).call(request_of(a={"orders": [1]}), 2)
    assert codes(response) == {("orders", 1): ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert not backend.links[2].asked
