"""The replies to Produce requests: each is the request's place among those of its connection, and takes the
results of its batches (`hop.append.AppendSink`).
"""

from collections.abc import Sequence

from highwater.gateway.core.meters import PRODUCE
from highwater.gateway.core.produce_reply import (
    FLEXIBLE_FROM,
    Stored,
    name_part,
    pack_replies,
    pack_reply,
)
from highwater.gateway.core.produce_shape import ProduceShape
from highwater.gateway.core.reply import Reply
from highwater.gateway.data_plane.produce_encoding import (
    PartitionResult,
    TopicKey,
    appended,
    current_leader,
    encode_reply,
    failed_partition,
    told,
)
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.current_leader import CurrentLeader
from highwater.gateway.routing.table import TopicRoutes
from highwater.hop.append import AppendGroup, Failure


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
        "_failed",
        "_leaders",
        "_missing",
        "_stored",
        "_throttle_ms",
        "_topics",
        "_version",
    )

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        acks: int,
        topics: Sequence[tuple[TopicKey, Sequence[int]]],
    ) -> None:
        """`topics` have the partitions of the request, in its order."""
        self.session = session
        self.api_key = PRODUCE
        self.request_bytes = request_bytes
        self.arrived_ns = session.arrived_ns
        self.parts = None
        self._version = version
        self._correlation_id = correlation_id
        self._acks = acks
        self._topics = topics
        self._throttle_ms = 0
        self._missing = sum([len(partitions) for _, partitions in topics])
        self._stored: list[Stored | None] = [None] * self._missing
        """By place in the request, what was appended."""
        self._failed: dict[int, PartitionResult] = {}
        """By place, what was not."""
        self._leaders: list[CurrentLeader] = []

    def begin(self) -> bool:
        """Takes its place among the replies; False if it is complete: there are no partitions."""
        if self._acks:
            self.session.expect(self)
        if not self._stored:
            self.finish()
        return bool(self._stored)

    def append_done(
        self, index: int, base_offset: int, group: AppendGroup | None, failure: Failure | None
    ) -> None:
        """Takes one partition's result."""
        key, partition = self._place(index)
        if failure is not None:
            self._failed[index] = self._refused(key, partition, failure)
        else:
            assert group is not None
            self._stored[index] = (
                partition,
                base_offset,
                group.log_append_time_ms,
                group.log_start_offset,
            )
        if group is not None and group.throttle_ms > self._throttle_ms:
            self._throttle_ms = group.throttle_ms
        self._missing -= 1
        if self._missing == 0:
            self.finish()

    def _place(self, index: int) -> tuple[TopicKey, int]:
        for key, partitions in self._topics:
            if index < len(partitions):
                return key, partitions[index]
            index -= len(partitions)
        raise IndexError("the request has fewer partitions")

    def _refused(self, key: TopicKey, partition: int, failure: Failure) -> PartitionResult:
        client = self.session.client
        routes = client.topics.find(*key)
        failure = told(self._version, failure, routes)
        self.session.shared.meters.produce.failed(failure.error_code)
        current = current_leader(self._version, routes, partition, failure, client.peer.entrance)
        if current is not None:
            self._leaders.append(current)
        return failed_partition(partition, failure, current)

    def finish(self) -> None:
        """Completes the reply with all results."""
        quota = self.session.quota
        if quota is not None:
            self._throttle_ms = quota.produced(self.request_bytes, self._throttle_ms)
        if self._acks == 0:
            self.session.complete_unanswered(self)
            if self._failed and not self.session.closed:
                self.session.wire.close("a batch with acks=0 failed")
            elif self._throttle_ms:
                self.session.mute(self._throttle_ms)
            return
        self.session.complete(self, self._encoded())
        if self._throttle_ms:
            self.session.mute(self._throttle_ms)

    def _encoded(self) -> bytes:
        version = self._version
        if version < FLEXIBLE_FROM or self._failed:
            return self._encoded_by_codec()
        stored: dict[TopicKey, list[Stored]] = {}
        begin = 0
        for key, partitions in self._topics:
            end = begin + len(partitions)
            stored.setdefault(key, []).extend(filter(None, self._stored[begin:end]))
            begin = end
        names = [
            (name_part(version, name.encode(), topic_id), results)
            for (name, topic_id), results in stored.items()
        ]
        return pack_replies(self._correlation_id, names, self._throttle_ms)

    def _encoded_by_codec(self) -> bytes:
        topics: dict[TopicKey, list[PartitionResult]] = {}
        index = 0
        for key, partitions in self._topics:
            results = topics.setdefault(key, [])
            for _ in partitions:
                stored = self._stored[index]
                results.append(self._failed[index] if stored is None else appended(stored))
                index += 1
        return encode_reply(
            self._version,
            self._correlation_id,
            list(topics.items()),
            self._throttle_ms,
            self._leaders,
        )

    def _waited_for(self) -> bool:
        missing, self._missing = self._missing, -1
        return missing > 0 or (missing == 0 and self._acks != 0 and self.parts is None)
