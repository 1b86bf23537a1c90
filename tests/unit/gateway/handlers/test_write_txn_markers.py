import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import write_txn_markers as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
)

VERSIONS = (1, 2)


def backend_of():
    backend = FakeBackend(image_of(topic("orders", [1, 2, 1, -1]), topic("clicks", [2])))
    for number, link in backend.links.items():
        link.answer_markers = answers(100 * number)
    return backend


def answers(base):
    """A node whose codes tell the node, the partition and the producer's epoch."""

    def answer(request):
        codes = [
            base + 10 * where.partition + marker.producer_epoch
            for marker in request.markers
            for where in marker.partitions
        ]
        return pb.WriteTxnMarkersResponse(error_codes=codes)

    return answer


def marker(epoch, committed=True, **wanted):
    return codec.WriteTxnMarkersRequestWritableTxnMarker(
        7_000,
        epoch,
        committed,
        [codec.WriteTxnMarkersRequestWritableTxnMarkerTopic(*one) for one in wanted.items()],
        5,
    )


def codes(answer):
    return [
        {(t.name, p.partition_index): p.error_code for t in one.topics for p in t.partitions}
        for one in answer.markers
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_leader_gets_its_markers_in_one_call(version):
    backend = backend_of()
    request = codec.WriteTxnMarkersRequest(
        [marker(3, orders=[0, 1, 2], clicks=[0]), marker(4, False, orders=[1])]
    )
    answer = await Client(backend).call(request, version)
    assert [one.producer_id for one in answer.markers] == [7_000] * 2
    assert codes(answer) == [
        {("orders", 0): 103, ("orders", 1): 213, ("orders", 2): 123, ("clicks", 0): 203},
        {("orders", 1): 214},
    ]
    [(first, _)], [(second, timeout_s)] = (backend.links[number].asked for number in (1, 2))
    assert [len(one.markers) for one in (first, second)] == [2, 3]
    assert timeout_s == 2
    written = second.markers[-1]
    assert (written.producer_id, written.producer_epoch, written.committed) == (7_000, 4, False)
    assert (written.coordinator_epoch, written.transaction_version) == (5, 0)
    [where] = written.partitions
    assert (where.topic_id, where.partition, where.leader_epoch) == (topic_id("orders"), 1, 6)


async def test_a_partition_that_is_named_twice_gets_one_marker():
    backend = backend_of()
    request = codec.WriteTxnMarkersRequest([marker(3, orders=[0, 0, 2, 0]), marker(4, orders=[0])])
    request.markers[0].topics = [*request.markers[0].topics] * 2
    answer = await Client(backend).call(request, 2)
    told = [[[p.error_code for p in t.partitions] for t in one.topics] for one in answer.markers]
    assert told == [[[103, 103, 123, 103]] * 2, [[104]]]
    [(asked, _)] = backend.links[1].asked
    written = [(one.producer_epoch, one.partitions[0].partition) for one in asked.markers]
    assert written == [(3, 0), (3, 2), (4, 0)]


@pytest.mark.parametrize("transaction_version", [2, -1])
async def test_the_transaction_version_is_passed_on(transaction_version):
    backend = backend_of()
    one = marker(3, clicks=[0])
    one.transaction_version = transaction_version
    await Client(backend).call(codec.WriteTxnMarkersRequest([one]), 2)
    [(request, _)] = backend.links[2].asked
    assert request.markers[0].transaction_version == transaction_version


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 3), (7_000, -1)])
async def test_no_marker_is_written_for_what_is_no_producer(producer_id, epoch):
    backend = backend_of()
    wrong, right = marker(epoch, orders=[0]), marker(3, orders=[0])
    wrong.producer_id = producer_id
    answer = await Client(backend).call(codec.WriteTxnMarkersRequest([wrong, right]), 1)
    assert codes(answer) == [{("orders", 0): ErrorCode.INVALID_REQUEST}, {("orders", 0): 103}]
    [(request, _)] = backend.links[1].asked
    assert [one.producer_epoch for one in request.markers] == [3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_partitions_without_a_leader_and_unknown_ones(version):
    backend = backend_of()
    request = codec.WriteTxnMarkersRequest([marker(3, orders=[3, 9, 0], none=[0])])
    assert codes(await Client(backend).call(request, version)) == [
        {
            ("orders", 3): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("orders", 0): 103,
            ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    ]


async def test_a_node_that_is_away_fails_only_its_own_partitions():
    backend = backend_of()

    def away(_request):
        raise UnreachableError("node 2 is away")

    backend.links[2].answer_markers = away
    request = codec.WriteTxnMarkersRequest([marker(3, orders=[0, 1])])
    assert codes(await Client(backend).call(request, 1)) == [
        {("orders", 0): 103, ("orders", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("denied", "code"),
    [
        ([AclOperation.ALTER], 103),
        ([AclOperation.CLUSTER_ACTION], 103),
        (
            [AclOperation.ALTER, AclOperation.CLUSTER_ACTION],
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
    ],
)
async def test_alter_or_cluster_action(version, denied, code):
    backend = backend_of()
    backend.deny(*((operation, THE_CLUSTER) for operation in denied))
    request = codec.WriteTxnMarkersRequest([marker(3, orders=[0])])
    assert codes(await Client(backend).call(request, version)) == [{("orders", 0): code}]


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_markers(version):
    answer = await Client(backend_of()).call(codec.WriteTxnMarkersRequest([]), version)
    assert answer.markers == []
