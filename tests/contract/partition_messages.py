"""Messages of the partition service as its proto describes them, without our codecs.

Whoever has the proto can write these; rows are packed, little-endian, without gaps.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from highwater.api.partition.v1 import partition_service_pb2 as pb

FETCH_CALL = Struct("<QiIiiiB")
FETCH_PARTITION = Struct("<Iiiqii")
FETCH_ANSWER = Struct("<QiiIB")
FETCH_RESULT = Struct("<hqqqI")
REPLICATE_ROW = Struct("<Iiiqi")
REPLICATE_ANSWER = Struct("<IiiqihqqqiqI")

TOPIC = b"topic-id-16bytes"


def framed(message: Any, payload: bytes) -> Any:
    """The message with its `header_bytes`, and the payload as its last field."""
    message.header_bytes = 1
    message.header_bytes = message.ByteSize()
    message.payload = payload
    return message


def append_request(
    topic_id: bytes,
    batches: list[bytes],
    *,
    message_id: int,
    partition: int = 0,
    epoch: int,
    acks: int = 1,
) -> pb.AppendRequest:
    """All batches as one group."""
    header = pb.AppendRequest(
        message_id=message_id,
        topic_ids=[topic_id],
        instances=["default"],
        group_topic=[0],
        group_partition=[partition],
        group_leader_epoch=[epoch],
        group_acks=[acks],
        group_batches=[len(batches)],
        batch_bytes=[len(batch) for batch in batches],
        deadline_ms=10_000,
    )
    return framed(header, b"".join(batches))


def fetch_request(
    topic_id: bytes,
    *,
    call_id: int,
    offset: int,
    partition: int = 0,
    max_wait_ms: int = 0,
    max_bytes: int = 64 << 20,
) -> pb.FetchRequest:
    """One call for one partition, which is answered with bytes."""
    return pb.FetchRequest(
        calls=FETCH_CALL.pack(call_id, 1, 0, max_wait_ms, 1, max_bytes, 0),
        partitions=FETCH_PARTITION.pack(0, partition, -1, offset, -1, max_bytes),
        instances=["default"],
        topic_ids=[topic_id],
    )


def replicate_request(
    topic_id: bytes,
    *,
    request_id: int,
    node: tuple[int, int],
    partition: int,
    epoch: int,
    offset: int,
) -> pb.ReplicateRequest:
    """One partition's place; `node` is the follower's id and epoch."""
    return pb.ReplicateRequest(
        request_id=request_id,
        node_id=node[0],
        node_epoch=node[1],
        topic_ids=[topic_id],
        partitions=REPLICATE_ROW.pack(0, partition, epoch, offset, epoch if offset else -1),
        max_wait_ms=5_000,
        max_bytes=8 << 20,
        partition_max_bytes=1 << 20,
    )
