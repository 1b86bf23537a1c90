import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import add_partitions_to_txn as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
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

OF_CLIENTS = range(4)
OF_BROKERS = (4, 5)
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def backend_of(leaders=(1, 2, 3)):
    """abs(hashCode) % 3 in Java: readers 1, payments 2."""
    topics = [topic("orders", [1, 2]), topic("clicks"), group_topic(), transaction_topic(leaders)]
    backend = FakeBackend(image_of(*topics))
    backend.coordinate(added)
    return backend


def topics_of(wanted):
    kind = codec.AddPartitionsToTxnRequestAddPartitionsToTxnTopic
    return [kind(name, list(partitions)) for name, partitions in wanted.items()]


def ask(**wanted):
    return codec.AddPartitionsToTxnRequest((), "payments", 7_000, 3, topics_of(wanted))


def transaction(name, verify_only=False, **wanted):
    return codec.AddPartitionsToTxnRequestAddPartitionsToTxnTransaction(
        name, 7_000, 3, verify_only, topics_of(wanted)
    )


def results_of(topics, code):
    result = codec.AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult
    partition = codec.AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult
    return [result(one.name, [partition(p, code) for p in one.partitions]) for one in topics]


def added(call):
    """A coordinator that adds everything."""
    request = request_of(call)
    response = codec.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=results_of(request.v3_and_below_topics, 0),
        results_by_transaction=[
            codec.AddPartitionsToTxnResponseAddPartitionsToTxnResult(
                one.transactional_id, results_of(one.topics, 0)
            )
            for one in request.transactions
        ],
    )
    return 0, codec.encode_response(response, call.api_version)


def codes(results):
    return {
        (one.name, p.partition_index): p.partition_error_code
        for one in results
        for p in one.results_by_partition
    }


@pytest.mark.parametrize("version", OF_CLIENTS)
async def test_the_coordinator_gets_the_request_as_it_is(version):
    backend = backend_of()
    request = ask(orders=[0, 1], clicks=[0])
    answer = await Client(backend).call(request, version)
    assert codes(answer.results_by_topic_v3_and_below) == {
        ("orders", 0): 0, ("orders", 1): 0, ("clicks", 0): 0,
    }  # fmt: skip
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, call.api_version) == (3, 2, version)
    assert bytes(call.body) == codec.encode_request(request, version)


@pytest.mark.parametrize("version", OF_CLIENTS)
async def test_one_partition_that_is_unknown_fails_all(version):
    backend = backend_of()
    answer = await Client(backend).call(ask(orders=[0, 2, -1], none=[0], clicks=[0]), version)
    assert codes(answer.results_by_topic_v3_and_below) == {
        ("orders", 0): NOT_ATTEMPTED,
        ("orders", 2): UNKNOWN,
        ("orders", -1): UNKNOWN,
        ("none", 0): UNKNOWN,
        ("clicks", 0): NOT_ATTEMPTED,
    }
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("version", OF_CLIENTS)
async def test_one_topic_that_is_denied_or_internal_fails_all(version):
    backend = backend_of()
    authorizer = backend.deny((AclOperation.WRITE, a_topic("clicks")))
    wanted = {"orders": [0], "clicks": [0], "__consumer_offsets": [1], "none": [5]}
    answer = await Client(backend).call(ask(**wanted), version)
    assert codes(answer.results_by_topic_v3_and_below) == {
        ("orders", 0): NOT_ATTEMPTED,
        ("clicks", 0): DENIED,
        ("__consumer_offsets", 1): DENIED,
        ("none", 5): UNKNOWN,
    }
    asked = [one for _, _, one in authorizer.asked]
    assert asked == [a_transaction("payments"), *map(a_topic, ("orders", "clicks", "none"))]
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("version", OF_CLIENTS)
async def test_a_denied_transactional_id(version):
    backend = backend_of()
    backend.deny((AclOperation.WRITE, a_transaction("payments")))
    answer = await Client(backend).call(ask(orders=[0, 1]), version)
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(answer.results_by_topic_v3_and_below) == {("orders", 0): code, ("orders", 1): code}
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("version", OF_CLIENTS)
@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_while_the_coordinator_is_away_every_partition_says_so(version, refusal, told):
    backend = backend_of()
    backend.coordinate(refuse(refusal))
    answer = await Client(backend).call(ask(orders=[0, 1]), version)
    assert codes(answer.results_by_topic_v3_and_below) == {("orders", 0): told, ("orders", 1): told}


@pytest.mark.parametrize("version", OF_BROKERS)
async def test_each_transaction_of_a_batch_goes_to_its_coordinator(version):
    backend = backend_of()
    names = ["payments", "readers", "no-topic", "payments"]
    request = codec.AddPartitionsToTxnRequest(
        [
            transaction("payments", orders=[0]),
            transaction("readers", True, clicks=[0]),
            transaction("no-topic", orders=[0], none=[0]),
            transaction("payments", clicks=[0]),
        ]
    )
    answer = await Client(backend).call(request, version)
    assert answer.error_code == 0
    assert [one.transactional_id for one in answer.results_by_transaction] == names
    assert [codes(one.topic_results) for one in answer.results_by_transaction] == [
        {("orders", 0): 0},
        {("clicks", 0): 0},
        {("orders", 0): NOT_ATTEMPTED, ("none", 0): UNKNOWN},
        {("clicks", 0): 0},
    ]
    asked = {node: request_of(call).transactions for node, call in backend.coordinator_calls()}
    assert {call.partition for _, call in backend.coordinator_calls()} == {-1}
    assert asked == {
        3: [request.transactions[0], request.transactions[3]],
        2: [request.transactions[1]],
    }


@pytest.mark.parametrize("version", OF_BROKERS)
async def test_only_transactions_without_a_coordinator_fail(version):
    backend = backend_of([1, 2, -1])
    request = codec.AddPartitionsToTxnRequest(
        [transaction("payments", orders=[0]), transaction("readers", orders=[1])]
    )
    answer = await Client(backend).call(request, version)
    assert [codes(one.topic_results) for one in answer.results_by_transaction] == [
        {("orders", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE},
        {("orders", 1): 0},
    ]
    alone = await Client(FakeBackend(image_of(topic("orders", [1, 2])))).call(request, version)
    assert {tuple(codes(one.topic_results).values()) for one in alone.results_by_transaction} == {
        (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
    }


@pytest.mark.parametrize("version", OF_BROKERS)
async def test_batches_are_for_brokers(version):
    backend = backend_of()
    authorizer = backend.deny((AclOperation.CLUSTER_ACTION, THE_CLUSTER))
    request = codec.AddPartitionsToTxnRequest([transaction("payments", orders=[0])])
    answer = await Client(backend).call(request, version)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.results_by_transaction == []
    assert [one for _, _, one in authorizer.asked] == [THE_CLUSTER]
    assert backend.coordinator_calls() == []
