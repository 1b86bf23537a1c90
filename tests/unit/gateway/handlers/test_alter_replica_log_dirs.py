import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import alter_replica_log_dirs as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    node,
    topic,
)

VERSIONS = (1, 2)
ORDERS = topic("orders", (1, 2, 2))
FOREIGN = topic("foreign", (2,), instance=OTHER)


@pytest.fixture
def backend():
    """Node 2 answers 0, 1, 2... in the order of the wishes, which are no codes that it would give."""
    made = FakeBackend(image_of(ORDERS, FOREIGN))
    made.links[2].answer_log_dirs = numbered
    return made


def numbered(asked):
    return pb.AlterLogDirsResponse(error_codes=range(len(asked.changes)))


def wishes(backend):
    """What node 2 was told: (topic id, partition, path)."""
    ((asked, _),) = backend.links[2].asked
    return [(one.topic_id, one.partition, asked.paths[one.path]) for one in asked.changes]


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
async def test_every_partition_has_the_code_that_the_node_gave(backend, version):
    wanted = request_of(a={"orders": [2, 1]}, b={"orders": [0]})
    response = await Client(backend, node_id=2).call(wanted, version)
    assert codes(response) == {("orders", 2): 0, ("orders", 1): 1, ("orders", 0): 2}
    assert wishes(backend) == [
        (ORDERS.topic_id, 2, "/a"),
        (ORDERS.topic_id, 1, "/a"),
        (ORDERS.topic_id, 0, "/b"),
    ]
    ((asked, _),) = backend.links[2].asked
    assert list(asked.paths) == ["/a", "/b"], "each path goes once, however many replicas it has"


async def test_the_node_hears_of_partitions_that_do_not_exist_without_a_topic(backend):
    wanted = request_of(a={"orders": [1, 3, -1], "foreign": [0], "unknown": [0]})
    response = await Client(backend, node_id=2).call(wanted, 2)
    assert wishes(backend) == [(ORDERS.topic_id, 1, "/a"), *[(b"", 0, "/a")] * 4]
    assert list(codes(response).items()) == [
        (("orders", 1), 0),
        (("orders", 3), 1),
        (("orders", -1), 2),
        (("foreign", 0), 3),
        (("unknown", 0), 4),
    ]


async def test_the_last_directory_counts(backend):
    wanted = request_of(b={"orders": [1]}, a={"orders": [1]})
    response = await Client(backend, node_id=2).call(wanted, 2)
    assert codes(response) == {("orders", 1): 0}
    assert wishes(backend) == [(ORDERS.topic_id, 1, "/a")]


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
