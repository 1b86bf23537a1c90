"""TxnOffsetCommit v0-5: offsets of a group that count when the transaction is committed (KIP-98).

Behaviour
- Without WRITE on the transactional id all partitions are TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
  without READ on the group GROUP_AUTHORIZATION_FAILED, without READ on a topic its partitions
  TOPIC_AUTHORIZATION_FAILED.
- The gateway answers UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist, and sends the
  others to the group's coordinator, which keeps them pending until the transaction's marker.
- If all partitions exist and are allowed, the body is sent on unchanged. An error of the whole call is
  repeated for every partition, since the response has no top-level code.

Version notes
- v1: throttle time. v2: leader epoch. v3: flexible; member and generation (KIP-447).
- v4: TRANSACTION_ABORTABLE. v5: the coordinator adds the group to the transaction, without
  AddOffsetsToTxn before (KIP-890).
"""

from collections.abc import Sequence

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.group_id import read_group_id
from highwater.gateway.handling.known_partitions import forward_known, split_partitions, unreadable
from highwater.gateway.handling.transactions import allowed_on_transaction
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import txn_offset_commit as codec
from highwater.model.acl_operations import AclOperation

_Asked = codec.TxnOffsetCommitRequestTxnOffsetCommitRequestTopic
_Partition = codec.TxnOffsetCommitRequestTxnOffsetCommitRequestPartition
_Topic = codec.TxnOffsetCommitResponseTxnOffsetCommitResponseTopic


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the existing partitions to the group's coordinator."""
    version = context.api_version
    # The transactional id is the first field, where other requests have the group id.
    transactional_id, _ = read_group_id(body, flexible=version >= codec.FLEXIBLE_FROM)
    if not allowed_on_transaction(context, AclOperation.WRITE, transactional_id):
        request = codec.decode_request(body, 0, version)
        denial = failure(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return codec.encode_response(denial, version)
    return await forward_known(
        context,
        body,
        operation=AclOperation.READ,
        codec=codec,
        take_refused=_take_refused,
        add_refused=_add_refused,
        failure=failure,
        response_type=codec.TxnOffsetCommitResponse,
    )


def failure(
    request: codec.TxnOffsetCommitRequest, _version: int, code: int
) -> codec.TxnOffsetCommitResponse:
    """The code for every partition."""
    return codec.TxnOffsetCommitResponse(
        topics=[_answer(topic, topic.partitions, code) for topic in request.topics]
    )


def _take_refused(context: RequestContext, request: codec.TxnOffsetCommitRequest) -> list[_Topic]:
    """Takes partitions that are unknown or denied out of the request; returns their answers."""
    refused: list[_Topic] = []
    known: list[_Asked] = []
    denied = unreadable(context, request.topics)
    for topic in request.topics:
        there, others, code = split_partitions(context, topic.name, topic.partitions, denied)
        if others:
            refused.append(_answer(topic, others, code))
            topic.partitions = there
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def _add_refused(response: codec.TxnOffsetCommitResponse, refused: list[_Topic]) -> None:
    response.topics = [*response.topics, *refused]


def _answer(topic: _Asked, partitions: Sequence[_Partition], code: int) -> _Topic:
    return _Topic(
        topic.name,
        [
            codec.TxnOffsetCommitResponseTxnOffsetCommitResponsePartition(one.partition_index, code)
            for one in partitions
        ],
    )
