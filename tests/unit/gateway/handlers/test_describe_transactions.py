from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_transactions as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
    a_transaction,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import image_of, transaction_topic

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def backend_of(leaders=(1, 2, 3)):
    """abs(hashCode) % 3 in Java: readers 1, payments 2."""
    backend = FakeBackend(image_of(transaction_topic(leaders)))
    backend.coordinate(described)
    return backend


def described(call):
    response = codec.DescribeTransactionsResponse(
        transaction_states=[
            codec.DescribeTransactionsResponseTransactionState(
                0, one, "Ongoing", 60_000, 1_700, 7_000, 3,
                [codec.DescribeTransactionsResponseTopicData(name, [0, 1]) for name in "ab"],
            )
            for one in request_of(call).transactional_ids
        ]
    )  # fmt: skip
    return 0, codec.encode_response(response, call.api_version)


async def ask(backend, *ids):
    answer = await Client(backend).call(codec.DescribeTransactionsRequest(list(ids)), 0)
    return answer.transaction_states


def codes(states):
    return [(one.transactional_id, one.error_code) for one in states]


async def test_each_coordinator_is_asked_once():
    backend = backend_of()
    ids = ["payments", "readers", "payments"]
    states = await ask(backend, *ids)
    assert codes(states) == [(one, 0) for one in ids]
    assert [(topic.topic, topic.partitions) for topic in states[0].topics] == [
        ("a", [0, 1]),
        ("b", [0, 1]),
    ]
    asked = {node: request_of(call) for node, call in backend.coordinator_calls()}
    assert {node: one.transactional_ids for node, one in asked.items()} == {
        3: ["payments", "payments"],
        2: ["readers"],
    }
    assert {call.partition for _, call in backend.coordinator_calls()} == {-1}


async def test_only_ids_without_a_coordinator_fail():
    backend = backend_of([1, 2, -1])
    assert codes(await ask(backend, "payments", "readers")) == [
        ("payments", NOT_AVAILABLE),
        ("readers", 0),
    ]
    backend.coordinate(refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert codes(await ask(backend, "readers")) == [
        ("readers", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    ]


async def test_before_the_first_transaction():
    assert codes(await ask(FakeBackend(), "payments")) == [("payments", NOT_AVAILABLE)]


async def test_ids_and_topics_that_the_client_may_not_describe():
    backend = backend_of()
    describe = AclOperation.DESCRIBE
    backend.deny((describe, a_transaction("payments")), (describe, a_topic("a")))
    states = await ask(backend, "payments", "readers")
    assert codes(states) == [
        ("payments", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("readers", 0),
    ]
    assert [topic.topic for topic in states[1].topics] == ["b"]
    assert [node for node, _ in backend.coordinator_calls()] == [2]
