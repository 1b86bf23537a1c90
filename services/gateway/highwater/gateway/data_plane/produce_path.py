"""Produce (key 0), served from version 3 to 13: from frame to appends to reply.

Hot path: a one-partition request that has the shape of the connection's last one becomes one sink
object and one call to the leader's link. The generated codec decodes all others.

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

from collections.abc import Mapping
from struct import Struct
from typing import Final

from highwater.gateway.core.meters import PRODUCE
from highwater.gateway.core.produce_reply import (
    FLEXIBLE_FROM,
    Stored,
    name_part,
    pack_replies,
    pack_reply,
)
from highwater.gateway.core.produce_shape import ProduceShape, learn, match
from highwater.gateway.core.reply import Reply
from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.gateway.data_plane.denials import has_transactional_records, produce_denials
from highwater.gateway.data_plane.produce_encoding import (
    PartitionResult,
    TopicKey,
    current_leader,
    encode_reply,
    failed_partition,
    told,
)
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.current_leader import CurrentLeader
from highwater.gateway.routing.table import InstanceTopics, TopicRoutes
from highwater.hop.append import NO_BATCH, AppendGroup, Batch, Failure, TransactionalWrite
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import produce as codec
from highwater.kafka.records.batch import ATTRIBUTES_AT, COMPRESSION_MASK
from highwater.kafka.records.compression import Compression
from highwater.model.authorization import Authorizer

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


class ProduceReply(Reply):
    """Error handling of both kinds of replies."""

    __slots__ = ("session",)

    session: ClientSession

    def append_broken(self, error: Exception) -> None:
        """Closes the client's connection after a bug with its result; nothing else is affected."""
        session = self.session
        session.handler.reply_failed(session, error)
        if self._waited_for():
            session.finished(self.request_bytes)

    def _waited_for(self) -> bool:
        """True if the request still counts as in flight; after this call it does not."""
        raise NotImplementedError


class SinglePartitionReply(ProduceReply):
    """A Produce of one partition: its place among the replies, and the sink of its batch."""

    __slots__ = ("correlation_id", "partition", "shape")

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        correlation_id: int,
        partition: int,
        shape: ProduceShape[TopicRoutes],
    ) -> None:
        self.session = session
        self.api_key = PRODUCE
        self.request_bytes = request_bytes
        self.arrived_ns = session.arrived_ns
        self.parts = None
        self.correlation_id = correlation_id
        self.partition = partition
        self.shape = shape

    def append_done(
        self, _index: int, base_offset: int, group: AppendGroup, failure: Failure | None
    ) -> None:
        """Packs the reply."""
        shape = self.shape
        session = self.session
        throttle_ms = group.throttle_ms
        if session.quota is not None:
            throttle_ms = session.quota.produced(self.request_bytes, throttle_ms)
        if failure is not None:
            failure = told(shape.version, failure, shape.topic)
            session.shared.meters.produce.failed(failure.error_code)
        if shape.acks == 0:
            session.complete_unanswered(self)
            if failure is not None and not session.closed:
                session.wire.close(f"a batch with acks=0 failed: {failure}")
            elif throttle_ms:
                session.mute(throttle_ms)
            return
        version = shape.version
        if failure is None:
            answer = pack_reply(
                shape.layout,
                version,
                self.correlation_id,
                shape.name,
                self.partition,
                0,
                base_offset,
                group.log_append_time_ms,
                group.log_start_offset,
                throttle_ms,
            )
        else:
            entrance = session.client.peer.entrance
            current = current_leader(version, shape.topic, self.partition, failure, entrance)
            answer = encode_reply(
                version,
                self.correlation_id,
                [(shape.topic.key, [failed_partition(self.partition, failure, current)])],
                throttle_ms,
                [] if current is None else [current],
            )
        session.complete(self, answer)
        if throttle_ms:
            session.mute(throttle_ms)

    def _waited_for(self) -> bool:
        return self.shape.acks != 0 and self.parts is None


class ManyPartitionsReply(ProduceReply):
    """A Produce of several partitions; ready when all results are in."""

    __slots__ = (
        "_acks",
        "_correlation_id",
        "_has_failures",
        "_leaders",
        "_missing",
        "_results",
        "_throttle_ms",
        "_version",
    )

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        request: codec.ProduceRequest,
    ) -> None:
        super().__init__(PRODUCE, request_bytes, session.arrived_ns)
        self.session = session
        self._version = version
        self._correlation_id = correlation_id
        self._acks = request.acks
        self._throttle_ms = 0
        self._has_failures = False
        self._leaders: list[CurrentLeader] = []
        self._results: list[tuple[TopicKey, PartitionResult]] = [
            ((topic.name, topic.topic_id), PartitionResult(index=data.index))
            for topic in request.topic_data
            for data in topic.partition_data
        ]
        self._missing = len(self._results)

    @property
    def partitions(self) -> int:
        """How many the request has."""
        return len(self._results)

    def begin(self) -> bool:
        """Takes its place among the replies; False if it is complete: there are no partitions."""
        if self._acks:
            self.session.expect(self)
        if not self._results:
            self.finish()
        return bool(self._results)

    def append_done(
        self, index: int, base_offset: int, group: AppendGroup | None, failure: Failure | None
    ) -> None:
        """Takes one partition's result."""
        key, result = self._results[index]
        if failure is not None:
            self._has_failures = True
            client = self.session.client
            routes = client.topics.find(*key)
            failure = told(self._version, failure, routes)
            self.session.shared.meters.produce.failed(failure.error_code)
            current = current_leader(
                self._version, routes, result.index, failure, client.peer.entrance
            )
            if current is not None:
                self._leaders.append(current)
            self._results[index] = (key, failed_partition(result.index, failure, current))
        else:
            assert group is not None
            result.base_offset = base_offset
            result.log_append_time_ms = group.log_append_time_ms
            result.log_start_offset = group.log_start_offset
        if group is not None:
            self._throttle_ms = max(self._throttle_ms, group.throttle_ms)
        self._missing -= 1
        if self._missing == 0:
            self.finish()

    def finish(self) -> None:
        """Completes the reply with all results."""
        quota = self.session.quota
        if quota is not None:
            self._throttle_ms = quota.produced(self.request_bytes, self._throttle_ms)
        if self._acks == 0:
            self.session.complete_unanswered(self)
            failed = any(result.error_code for _, result in self._results)
            if failed and not self.session.closed:
                self.session.wire.close("a batch with acks=0 failed")
            elif self._throttle_ms:
                self.session.mute(self._throttle_ms)
            return
        self.session.complete(self, self._encoded())
        if self._throttle_ms:
            self.session.mute(self._throttle_ms)

    def _encoded(self) -> bytes:
        version = self._version
        if version >= FLEXIBLE_FROM and not self._has_failures:
            stored: dict[TopicKey, list[Stored]] = {}
            for key, one in self._results:
                stored.setdefault(key, []).append(
                    (one.index, one.base_offset, one.log_append_time_ms, one.log_start_offset)
                )
            names = [
                (name_part(version, name.encode(), topic_id), results)
                for (name, topic_id), results in stored.items()
            ]
            return pack_replies(self._correlation_id, names, self._throttle_ms)
        topics: dict[TopicKey, list[PartitionResult]] = {}
        for key, result in self._results:
            topics.setdefault(key, []).append(result)
        return encode_reply(
            version, self._correlation_id, list(topics.items()), self._throttle_ms, self._leaders
        )

    def _waited_for(self) -> bool:
        missing, self._missing = self._missing, -1
        return missing > 0 or (missing == 0 and self._acks != 0 and self.parts is None)


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
            self._decode(session, frame, version, correlation_id)
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

    def _decode(
        self, session: ClientSession, frame: bytearray, version: int, correlation_id: int
    ) -> None:
        """Handles any request that does not have the shape of the last one."""
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        reply = ManyPartitionsReply(session, len(frame), version, correlation_id, request)
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
        if reply.partitions == len(request.topic_data) == 1 and not denials:
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
        data = topic.partition_data[0]
        batch = _batch_of(data)
        routes = topics.find(topic.name, topic.topic_id)
        if (
            (transaction is None and request.transactional_id is not None)
            or routes is None
            or _refusal(routes, data.index, batch, request.acks, version) is not None
        ):
            return
        session.tail = learn(
            frame,
            version,
            len(batch),
            request.acks,
            bounded_timeout_ms(request.timeout_ms),
            routes,
            name_part(version, routes.name_bytes, routes.topic_id),
            routes.reply_struct(version),
            transaction,
        )


def bounded_timeout_ms(timeout_ms: int) -> int:
    """How long a request may wait for its results."""
    return min(max(timeout_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)


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
