import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_log_dirs as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    topic,
)

VERSIONS = range(1, 6)
ORDERS = topic("orders", (1, 2))
FOREIGN = topic("foreign", (1,), instance=OTHER)


@pytest.fixture
def backend():
    made = FakeBackend(image_of(ORDERS, FOREIGN))
    for number, link in made.links.items():
        link.answer_log_dirs = lambda asked, number=number: pb.DescribeLogDirsResponse(
            dirs=[
                pb.LogDirDescription(
                    path=f"/data/{number}",
                    total_bytes=1000,
                    usable_bytes=400,
                    replicas=[
                        pb.LogDirReplica(topic_id=t.topic_id, partition=number, size_bytes=7)
                        for t in (ORDERS, FOREIGN)
                    ],
                ),
                pb.LogDirDescription(path="/broken", error_code=56, total_bytes=-1),
            ]
        )
    return made


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_broker_describes_its_own_directories(backend, version):
    response = await Client(backend, node_id=2).call(codec.DescribeLogDirsRequest(None), version)
    assert response.error_code == 0
    whole, broken = response.results
    assert (whole.error_code, whole.log_dir) == (0, "/data/2")
    (orders,) = whole.topics
    (partition,) = orders.partitions
    assert orders.name == "orders", "topics of other instances are not told"
    assert (partition.partition_index, partition.partition_size) == (2, 7)
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    known = version >= 4
    assert (whole.total_bytes, whole.usable_bytes) == ((1000, 400) if known else (-1, -1))
    assert (broken.error_code, broken.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, "/broken")
    assert broken.topics == []
    assert [number for number, link in backend.links.items() if link.asked] == [2]
    ((asked, _),) = backend.links[2].asked
    assert (asked.all_topics, len(asked.topics)) == (True, 0)


async def test_a_replica_that_moves_is_told_as_the_future_one(backend):
    backend.links[2].answer_log_dirs = lambda _: pb.DescribeLogDirsResponse(
        dirs=[
            pb.LogDirDescription(
                path=f"/data/{number}",
                replicas=[
                    pb.LogDirReplica(
                        topic_id=ORDERS.topic_id,
                        partition=1,
                        size_bytes=9 - number,
                        is_future=bool(number),
                        offset_lag=4 * number,
                    )
                ],
            )
            for number in range(2)
        ]
    )
    response = await Client(backend, node_id=2).call(codec.DescribeLogDirsRequest(None), 4)
    told = [
        (one.log_dir, part.partition_size, part.offset_lag, part.is_future_key)
        for one in response.results
        for part in one.topics[0].partitions
    ]
    assert told == [("/data/0", 9, 0, False), ("/data/1", 8, 4, True)]


async def test_only_topics_of_the_instance_are_asked_about(backend):
    wanted = [
        codec.DescribeLogDirsRequestDescribableLogDirTopic(name, [0, -1, 9])
        for name in ("orders", "foreign", "unknown")
    ]
    await Client(backend, node_id=1).call(codec.DescribeLogDirsRequest(wanted), 4)
    ((asked, _),) = backend.links[1].asked
    assert not asked.all_topics
    assert [(t.topic_id, list(t.partitions)) for t in asked.topics] == [(ORDERS.topic_id, [0, 9])]


async def test_the_bootstrap_port_answers_for_all_nodes(backend):
    response = await Client(backend).call(codec.DescribeLogDirsRequest(None), 4)
    assert [one.log_dir for one in response.results if not one.error_code] == [
        "/data/1",
        "/data/2",
        "/data/3",
    ]


def _away(_asked):
    raise UnreachableError("node 2: gone")


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unreachable_broker(backend, version):
    backend.links[2].answer_log_dirs = _away
    response = await Client(backend, node_id=2).call(codec.DescribeLogDirsRequest(None), version)
    if version >= 3:
        assert (response.error_code, response.results) == (ErrorCode.BROKER_NOT_AVAILABLE, [])
    else:
        (result,) = response.results
        assert (result.error_code, result.log_dir) == (ErrorCode.BROKER_NOT_AVAILABLE, "")


async def test_other_brokers_are_described_beside_an_unreachable_one(backend):
    backend.links[2].answer_log_dirs = _away
    response = await Client(backend).call(codec.DescribeLogDirsRequest(None), 4)
    assert response.error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert [one.log_dir for one in response.results] == ["/data/1", "/broken", "/data/3", "/broken"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_the_cluster_nothing_is_listed(backend, version):
    backend.deny((AclOperation.DESCRIBE, THE_CLUSTER))
    response = await Client(backend).call(codec.DescribeLogDirsRequest(None), version)
    assert response.results == []
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.error_code == (denied if version >= 3 else 0)
    assert not any(link.asked for link in backend.links.values())
