"""AddPartitionsToTxn v0-5: partitions join a transaction (KIP-98).

Behaviour
- Without WRITE on the transactional id all partitions are TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- A topic that the client may not WRITE, or an internal one, is TOPIC_AUTHORIZATION_FAILED, and a partition
  that does not exist UNKNOWN_TOPIC_OR_PARTITION. One of them fails the whole transaction: its other
  partitions are OPERATION_NOT_ATTEMPTED (Kafka: `KafkaApis.handleAddPartitionsToTxnRequest`).
- All else is the coordinator's: the body of v0-3 passes through unchanged.
- v4 and v5 are what brokers ask coordinators, for several transactions at once, and need
  CLUSTER_ACTION, otherwise CLUSTER_AUTHORIZATION_FAILED at the top. Here nodes ask each other in
  another way, so nobody sends them to a gateway but tools. Each transaction's coordinator answers for it.

Version notes
- v1: throttle time. v2: PRODUCER_FENCED. v3: flexible.
- v4: batches, which may ask without adding (KIP-890). v5: TRANSACTION_ABORTABLE.
"""

from collections.abc import Sequence
from typing import Final

from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.transactions import (
    allowed_on_transaction,
    ask_transaction_coordinators,
    forward_transaction,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import add_partitions_to_txn as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.ids import INTERNAL_TOPICS

BATCHED_FROM: Final = 4

_Topic = codec.AddPartitionsToTxnRequestAddPartitionsToTxnTopic
_Transaction = codec.AddPartitionsToTxnRequestAddPartitionsToTxnTransaction
_TopicResult = codec.AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult
_Result = codec.AddPartitionsToTxnResponseAddPartitionsToTxnResult
_PartitionResult = codec.AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the coordinator of the transactional id, or of each of them."""
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    if version >= BATCHED_FROM:
        return codec.encode_response(await _batch(context, request), version)
    transactional_id = request.v3_and_below_transactional_id
    if not allowed_on_transaction(context, AclOperation.WRITE, transactional_id):
        denial = failure(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return codec.encode_response(denial, version)
    topics = request.v3_and_below_topics
    names = [topic.name for topic in topics if topic.name not in INTERNAL_TOPICS]
    denied = denied_topics(context, AclOperation.WRITE, names) | INTERNAL_TOPICS
    refused = _refused(context, topics, denied)
    if refused is not None:
        response = codec.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused)
        return codec.encode_response(response, version)
    return await forward_transaction(
        context, body, request, transactional_id, codec=codec, failure=failure
    )


def failure(
    request: codec.AddPartitionsToTxnRequest, version: int, code: int
) -> codec.AddPartitionsToTxnResponse:
    """The code for every partition; from v4 on only at the top."""
    if version >= BATCHED_FROM:
        return codec.AddPartitionsToTxnResponse(error_code=code)
    return codec.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_all(request.v3_and_below_topics, code)
    )


async def _batch(
    context: RequestContext, request: codec.AddPartitionsToTxnRequest
) -> codec.AddPartitionsToTxnResponse:
    version = context.api_version
    if not context.allows(AclOperation.CLUSTER_ACTION, THE_CLUSTER):
        return failure(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results: list[_Result | None] = []
    asked: list[_Transaction] = []
    for one in request.transactions:
        refused = _refused(context, one.topics, frozenset())
        results.append(None if refused is None else _Result(one.transactional_id, refused))
        if refused is None:
            asked.append(one)
    answers = iter(
        await ask_transaction_coordinators(
            context,
            asked,
            id_of=lambda one: one.transactional_id,
            encode=lambda some: codec.encode_request(
                codec.AddPartitionsToTxnRequest(some), version
            ),
            decode=lambda body: codec.decode_response(body, 0, version).results_by_transaction,
            failed=lambda one, code: _Result(one.transactional_id, _all(one.topics, code)),
        )
    )
    return codec.AddPartitionsToTxnResponse(
        results_by_transaction=[next(answers) if one is None else one for one in results]
    )


def _refused(
    context: RequestContext, topics: Sequence[_Topic], denied: frozenset[str]
) -> list[_TopicResult] | None:
    """The answer if some partition cannot be added; None if all of them may be."""
    codes = {
        (topic.name, partition): _code(context, topic.name, partition, denied)
        for topic in topics
        for partition in topic.partitions
    }
    if not any(codes.values()):
        return None
    return [
        _TopicResult(
            topic.name,
            [
                _PartitionResult(
                    partition, codes[topic.name, partition] or ErrorCode.OPERATION_NOT_ATTEMPTED
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def _code(context: RequestContext, topic: str, partition: int, denied: frozenset[str]) -> ErrorCode:
    if topic in denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    state = context.backend.image.topic(topic, context.peer.instance)
    if state is None or not 0 <= partition < len(state.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _all(topics: Sequence[_Topic], code: int) -> list[_TopicResult]:
    return [
        _TopicResult(topic.name, [_PartitionResult(one, code) for one in topic.partitions])
        for topic in topics
    ]
