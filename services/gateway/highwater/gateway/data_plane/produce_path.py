"""Produce (key 0), served from version 3 to 13: from frame to appends to reply.

Hot path: a one-partition request that has the shape of the connection's last one becomes one sink
object and one call to the leader's link. From version 9 on, one for several partitions of the same topic
becomes one object and a call for each. The generated codec decodes all others.

- v3-v8 classic, v9+ flexible encoding; v7 allows zstd; v8 adds record errors; v10 current leaders.
- v11 knows TRANSACTION_ABORTABLE, older ones get INVALID_TXN_STATE. From v12 on leaders add the partition
  to the transaction; before, they ask whether its producer has added it (KIP-890).
- v13 names topics by id (KIP-516): an unknown id, also that of a topic deleted while its batch was held, is
  UNKNOWN_TOPIC_ID. A topic made anew under its name has another id, so no batch for the former one reaches
  it.
- An instance at its storage limit gets POLICY_VIOLATION, a leader whose disk is nearly full KAFKA_STORAGE_ERROR
  (docs/traffic-limits.md).
- acks=0 is never answered; an error then closes the connection, as in Kafka.
- Without WRITE on a topic its partitions are TOPIC_AUTHORIZATION_FAILED. If any batch is transactional,
  all are TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id or WRITE on it.

Deviations
- Versions 0 to 2 are advertised for old librdkafka (KAFKA-18659), and close the connection, unless
  `old_message_formats` is set (`old_produce`).
- A timeout below one second counts as one second, above five minutes as five minutes; Kafka only
  applies it to acks=all.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from highwater.gateway.core.produce_reply import (
    FLEXIBLE_FROM,
    TOPIC_IDS_FROM,
    name_part,
)
from highwater.gateway.core.produce_shape import (
    PARTITIONS_MAX,
    ProduceShape,
    learn,
    match,
    match_several,
)
from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.gateway.data_plane.denials import has_transactional_records, produce_denials
from highwater.gateway.data_plane.produce_encoding import (
    TopicKey,
)
from highwater.gateway.data_plane.produce_replies import ManyPartitionsReply, SinglePartitionReply
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.table import InstanceTopics, PartitionRoute, TopicRoutes
from highwater.hop.append import NO_BATCH, Batch, Failure, TransactionalWrite
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import produce as codec
from highwater.kafka.records.batch import ATTRIBUTES_AT, COMPRESSION_MASK
from highwater.kafka.records.compression import Compression
from highwater.model.authorization import Authorizer
from highwater.model.ids import NO_TOPIC_ID

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13
ZSTD_FROM: Final = 7
ADDS_PARTITION_FROM: Final = 12
"""Version from which leaders add partitions to transactions (KIP-890)."""
TIMEOUT_MS_MIN: Final = 1_000
"""The minimum wait, even if the client's timeout is shorter; Kafka's only applies to acks=all."""
TIMEOUT_MS_MAX: Final = 300_000

_DECODER: Final = RequestDecoder(
    "Produce", range(MIN_VERSION, MAX_VERSION + 1), codec.decode_request
)
_unpack_head = Struct(">hhi").unpack_from


class ProducePath:
    """Handles the Produce frames of all sessions of a loop."""

    __slots__ = ("_authorizer",)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def start(self, session: ClientSession, frame: bytearray) -> None:
        """Starts a request, which is already counted as outstanding."""
        _, version, correlation_id = _unpack_head(frame)
        shape: ProduceShape[TopicRoutes] | None = session.tail
        if shape is None or shape.version != version or shape.topic.gone:
            self._decode(session, frame, version, correlation_id)
            return
        place = match(shape, frame)
        if place is None:
            self._start_several(session, frame, shape, correlation_id)
            return
        partition, start, end = place
        routes = shape.topic.partitions
        target = routes[partition].target if 0 <= partition < len(routes) else None
        if target is None:
            self._decode(session, frame, version, correlation_id)
            return
        reply = SinglePartitionReply(session, len(frame), correlation_id, partition, shape)
        if shape.acks:
            session.replies.append(reply)
        target.append(
            routes[partition],
            shape.acks,
            memoryview(frame)[start:end],
            end - start,
            reply,
            0,
            session.shared.now_ms + shape.timeout_ms,
            shape.transaction,
        )

    def _start_several(
        self,
        session: ClientSession,
        frame: bytearray,
        shape: ProduceShape[TopicRoutes],
        correlation_id: int,
    ) -> None:
        """Starts a request that is not for one partition, as the shape knows it."""
        places = match_several(shape, frame)
        routes, version = shape.topic.partitions, shape.version
        if places is None or not _have_leaders(routes, places):
            self._decode(session, frame, version, correlation_id)
            return
        key = ("", shape.topic.topic_id)
        if version < TOPIC_IDS_FROM:
            key = (shape.topic.name, NO_TOPIC_ID)
        topics = [(key, [partition for partition, _, _ in places])]
        reply = ManyPartitionsReply(
            session, len(frame), version, correlation_id, shape.acks, topics
        )
        reply.begin()
        deadline_ms = session.shared.now_ms + shape.timeout_ms
        view = memoryview(frame)
        for index, (partition, start, end) in enumerate(places):
            route = routes[partition]
            assert route.target is not None
            route.target.append(
                route,
                shape.acks,
                view[start:end],
                end - start,
                reply,
                index,
                deadline_ms,
                shape.transaction,
            )

    def _decode(
        self, session: ClientSession, frame: bytearray, version: int, correlation_id: int
    ) -> None:
        """Handles any request that does not have the shape of the last one."""
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        reply = ManyPartitionsReply(
            session, len(frame), version, correlation_id, request.acks, partitions_of(request)
        )
        if not reply.begin():
            return
        transactional = has_transactional_records(request)
        denials = produce_denials(
            self._authorizer, session.client, request, transactional=transactional
        )
        transaction: TransactionalWrite | None = None
        if transactional and request.transactional_id is not None:
            transaction = TransactionalWrite(
                request.transactional_id, version >= ADDS_PARTITION_FROM
            )
        if len(request.topic_data) == 1 and not denials:
            self._learn(session, frame, version, request, session.client.topics, transaction)
        deadline_ms = session.shared.now_ms + bounded_timeout_ms(request.timeout_ms)
        self.append_all(version, request, reply, deadline_ms, denials, transaction=transaction)

    def append_all(
        self,
        version: int,
        request: codec.ProduceRequest,
        reply: ManyPartitionsReply,
        deadline_ms: int,
        denials: Mapping[str, Failure],
        refused: Mapping[int, Failure] | None = None,
        transaction: TransactionalWrite | None = None,
    ) -> None:
        """Sends each batch to its leader but those of denied topics, and at `refused` places."""
        topics = reply.session.client.topics
        index = 0
        for topic in request.topic_data:
            routes = topics.find(topic.name, topic.topic_id)
            name = topic.name if routes is None else routes.name
            denial = denials.get(name) if denials else None
            for data in topic.partition_data:
                failure = refused.get(index) if refused and denial is None else denial
                if failure is not None:
                    reply.append_done(index, -1, None, failure)
                else:
                    self._append(
                        routes, data, request.acks, version, reply, index, deadline_ms, transaction
                    )
                index += 1

    def _append(
        self,
        routes: TopicRoutes | None,
        data: codec.ProduceRequestPartitionProduceData,
        acks: int,
        version: int,
        reply: ManyPartitionsReply,
        index: int,
        deadline_ms: int,
        transaction: TransactionalWrite | None,
    ) -> None:
        """Sends one partition's batch to its leader, or answers it."""
        batch = _batch_of(data)
        failure = _refusal(routes, data.index, batch, acks, version)
        if failure is not None:
            reply.append_done(index, -1, None, failure)
            return
        assert routes is not None
        route = routes.partitions[data.index]
        target = route.target
        if target is None:
            reply.append_done(
                index,
                -1,
                None,
                Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition has no leader now"),
            )
            return
        target.append(route, acks, batch, len(batch), reply, index, deadline_ms, transaction)

    def _learn(
        self,
        session: ClientSession,
        frame: bytearray,
        version: int,
        request: codec.ProduceRequest,
        topics: InstanceTopics,
        transaction: TransactionalWrite | None,
    ) -> None:
        """Remembers the shape, if the next request of its kind may take the fast path.

        One that names a transactional id is learnt from a transactional batch, for which the client
        was asked to be allowed. Nodes refuse such a batch without a transaction.
        """
        topic = request.topic_data[0]
        places = topic.partition_data
        routes = topics.find(topic.name, topic.topic_id)
        if (
            (transaction is None and request.transactional_id is not None)
            or routes is None
            or len(places) > (PARTITIONS_MAX if version >= FLEXIBLE_FROM else 1)
            or any(
                _refusal(routes, data.index, _batch_of(data), request.acks, version) is not None
                for data in places
            )
        ):
            return
        session.tail = learn(
            frame,
            version,
            [len(_batch_of(data)) for data in places],
            request.acks,
            bounded_timeout_ms(request.timeout_ms),
            routes,
            name_part(version, routes.name_bytes, routes.topic_id),
            routes.reply_struct(version),
            transaction,
        )


def partitions_of(request: codec.ProduceRequest) -> list[tuple[TopicKey, list[int]]]:
    """Which partitions the request is for."""
    return [
        ((topic.name, topic.topic_id), [data.index for data in topic.partition_data])
        for topic in request.topic_data
    ]


def bounded_timeout_ms(timeout_ms: int) -> int:
    """How long a request may wait for its results."""
    return min(max(timeout_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)


def _have_leaders(routes: Sequence[PartitionRoute], places: Sequence[tuple[int, int, int]]) -> bool:
    """Whether every batch can be sent now."""
    for partition, _, _ in places:
        if not 0 <= partition < len(routes) or routes[partition].target is None:
            return False
    return True


def _batch_of(data: codec.ProduceRequestPartitionProduceData) -> Batch:
    """A partition's record batch, empty if the request has none."""
    batch = data.records
    assert batch is None or isinstance(batch, Batch)  # As the codec decodes a bytearray.
    return batch or NO_BATCH


def _refusal(
    routes: TopicRoutes | None, partition: int, batch: Batch, acks: int, version: int
) -> Failure | None:
    """Refuses what the gateway itself can check (Kafka's KafkaApis and ProduceRequest checks)."""
    if acks not in (-1, 0, 1):
        return Failure(ErrorCode.INVALID_REQUIRED_ACKS, f"acks {acks} is none of -1, 0 and 1")
    if routes is None or not 0 <= partition < len(routes.partitions):
        return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if routes.internal:
        return Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not write internal topics")
    if not batch:
        return Failure(ErrorCode.INVALID_RECORD, "no record batch")
    if version < ZSTD_FROM and len(batch) > ATTRIBUTES_AT + 1:
        codec_id = batch[ATTRIBUTES_AT + 1] & COMPRESSION_MASK
        if codec_id == Compression.ZSTD:
            return Failure(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7")
    return None
