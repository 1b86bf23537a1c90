import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import txn_offset_commit as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    a_transaction,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    topic,
    transaction_topic,
)

VERSIONS = range(6)


def backend_of():
    """abs(hashCode) % 3 in Java: readers 1, payments 2."""
    topics = [topic("orders", [1, 2]), topic("clicks")]
    backend = FakeBackend(image_of(*topics, group_topic([3, 2, 1]), transaction_topic([1, 1, 1])))
    backend.coordinate(kept)
    return backend


def ask(**wanted):
    topics = [
        codec.TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(
            name,
            [
                codec.TxnOffsetCommitRequestTxnOffsetCommitRequestPartition(
                    one, 42, committed_metadata=""
                )
                for one in partitions
            ],
        )
        for name, partitions in wanted.items()
    ]
    return codec.TxnOffsetCommitRequest("payments", "readers", 7_000, 3, topics=topics)


def kept(call):
    """A coordinator that keeps everything."""
    response = codec.TxnOffsetCommitResponse(
        topics=[
            codec.TxnOffsetCommitResponseTxnOffsetCommitResponseTopic(
                one.name,
                [
                    codec.TxnOffsetCommitResponseTxnOffsetCommitResponsePartition(p.partition_index)
                    for p in one.partitions
                ],
            )
            for one in request_of(call).topics
        ]
    )
    return 0, codec.encode_response(response, call.api_version)


def codes(answer):
    return {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_groups_coordinator_gets_the_request_as_it_is(version):
    backend = backend_of()
    request = ask(orders=[0, 1])
    assert codes(await Client(backend).call(request, version)) == {
        ("orders", 0): 0,
        ("orders", 1): 0,
    }
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, call.api_version) == (2, 1, version)
    assert bytes(call.body) == codec.encode_request(request, version)


@pytest.mark.parametrize("version", VERSIONS)
async def test_it_gets_only_partitions_that_exist_and_may_be_read(version):
    backend = backend_of()
    backend.deny((AclOperation.READ, a_topic("clicks")))
    answer = await Client(backend).call(ask(orders=[1, 2], none=[0], clicks=[0]), version)
    assert codes(answer) == {
        ("orders", 1): 0,
        ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("clicks", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    [(_, call)] = backend.coordinator_calls()
    assert request_of(call) == ask(orders=[1])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("denied", "code"),
    [
        (
            (AclOperation.WRITE, a_transaction("payments")),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ((AclOperation.READ, a_group("readers")), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_who_may_not(version, denied, code):
    backend = backend_of()
    backend.deny(denied)
    assert codes(await Client(backend).call(ask(orders=[0]), version)) == {("orders", 0): code}
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [14, 15, 16])
async def test_while_the_coordinator_is_away_every_partition_says_so(version, code):
    backend = backend_of()
    backend.coordinate(refuse(code))
    answer = await Client(backend).call(ask(orders=[0, 1]), version)
    assert codes(answer) == {("orders", 0): code, ("orders", 1): code}
