"""Fetch (key 1), served from version 4 to 18: one work per leader, one reply.

- v4 isolation level, v5 log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320),
  v10 zstd, v11 rack, v12 flexible, v13 topic ids (KIP-516): an unknown one is UNKNOWN_TOPIC_ID,
  and one of a deleted topic never means the topic made anew under its name. v15 moves the replica
  id into a tag, v16 has addresses of current leaders (KIP-951), v17 and v18 tags of replicas.
- If the node's files can be read, large records never pass through this process: a reply's part is
  a range of a segment file. Small ones come as bytes, or are read (`hop.fetch.SMALL_RANGE`).
- Without READ on a topic its partitions are TOPIC_AUTHORIZATION_FAILED.

Deviations
- Sessions are declined: the reply has session id 0, so clients keep sending whole fetches.
- If a new leader's high watermark may be below its predecessor's, a fetch without records waits,
  and then gets OFFSET_NOT_AVAILABLE; Kafka returns the smaller high watermark.
- Replicas do not fetch here: a request with replica id >= 0 is refused.
- INCONSISTENT_TOPIC_ID is never sent: logs belong to ids, so none is that of another id.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from highwater.gateway.core.fetch_shape import (
    FetchShape,
    learn,
    match,
    name_part,
    pack_reply,
)
from highwater.gateway.core.meters import FETCH
from highwater.gateway.core.reply import Part, Reply
from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.gateway.data_plane.denials import is_of_replica, unreadable_topics
from highwater.gateway.data_plane.fetch_encoding import (
    encode_parts,
    partition_data,
    read_small,
    session_not_found,
    settle_refusal,
)
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.current_leader import CurrentLeader
from highwater.gateway.routing.table import TopicRoutes
from highwater.hop.fetch import (
    BUFFERS,
    READ_COMMITTED,
    SMALL_RANGE,
    FetchedPartition,
    FetchPartition,
    FetchWork,
)
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch as codec
from highwater.model.authorization import Authorizer

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
RESPONSE_BYTES_MAX: Final = 64 << 20
"""fetch.max.bytes of the broker; Kafka's default is 55 MiB. Files are sent, not kept in memory."""

_NOT_AVAILABLE: Final = int(ErrorCode.OFFSET_NOT_AVAILABLE)

_DECODER: Final = RequestDecoder("Fetch", range(MIN_VERSION, MAX_VERSION + 1), codec.decode_request)
_unpack_head = Struct(">hhi").unpack_from


class FailingReply(Reply):
    """Error handling of both kinds of replies."""

    __slots__ = ("session",)

    session: ClientSession

    def failed(self, results: Iterable[FetchedPartition | None], error: Exception) -> None:
        """Closes the client's connection after a bug in its reply; the node's stream stays open."""
        for result in results:
            if result is not None:
                result.release()
        session = self.session
        session.handler.reply_failed(session, error)
        if self.parts is None:
            session.finished(self.request_bytes)


class FetchReply(FailingReply):
    """A Fetch in flight: works at one or more nodes, and results by place in the request.

    If there are several nodes, each is first asked for the records that it has now, and the reply
    takes all answers: if it left with the first, the partitions of slower nodes would starve. Only
    if no node has any, each is asked again to wait, and the first node with records ends the wait
    of the others.
    """

    __slots__ = (
        "_correlation_id",
        "_done",
        "_found",
        "_missing",
        "_request",
        "_results",
        "_version",
        "_wait_ms",
        "works",
    )

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        request: codec.FetchRequest,
        places: int,
    ) -> None:
        super().__init__(FETCH, request_bytes, session.arrived_ns)
        self.session = session
        self._version = version
        self._correlation_id = correlation_id
        self._request = request
        self._results: list[FetchedPartition | None] = [None] * places
        self.works: list[tuple[NodeLink, FetchWork, list[int]]] = []
        self._missing = 0
        self._found = False
        self._wait_ms = 0
        self._done = False

    def set_result(self, place: int, result: FetchedPartition) -> None:
        """Sets a result that needs no node."""
        self._results[place] = result

    def start(self, link: NodeLink, work: FetchWork, places: list[int]) -> None:
        """Adds a work; `send` sends all works."""
        self.works.append((link, work, places))

    def send(self) -> None:
        """Sends all works; answers may come at once."""
        works = self.works
        self._missing = len(works)
        if len(works) > 1:
            self._wait_ms = works[0][1].max_wait_ms if works[0][1].min_bytes else 0
            for _, work, _ in works:
                work.max_wait_ms = 0
                work.min_bytes = min(work.min_bytes, 1)
        for link, work, _ in works:
            link.fetch(work)

    def _send_again(self) -> None:
        """Asks each node to wait, as none has records. Earlier results stand until then."""
        wait_ms, self._wait_ms = self._wait_ms, 0
        self.works = [
            (link, work.again(wait_ms, self.work_done), places) for link, work, places in self.works
        ]
        self._missing = len(self.works)
        for link, work, _ in self.works:
            if not work.cancelled:
                link.fetch(work)

    def work_done(self, work: FetchWork) -> None:
        """Takes a node's answer; see the class."""
        nbytes = 0
        failed = False
        for _, other, places in self.works:
            if other is work:
                for place, result in zip(places, work.results, strict=True):
                    self._results[place] = result
                    nbytes += result.nbytes
                    # An unavailable offset may become available by the end of the wait.
                    failed = failed or result.error_code not in (0, _NOT_AVAILABLE)
        self._missing -= 1
        self._found = self._found or failed or nbytes > 0 or work.throttle_ms > 0
        if self._done:
            for result in work.results:
                result.release()
        elif self._wait_ms:
            if self._missing == 0:
                (self.finish if self._found else self._send_again)()
        elif self._missing == 0 or (work.max_wait_ms and self._found):
            self.finish()

    def finish(self) -> None:
        """Replies with the results so far."""
        self._done = True
        if self._missing:
            for link, work, _ in self.works:
                if not work.results:
                    link.cancel_fetch(work)
        if len(self.works) > 1:
            self._keep_to_max_bytes(self.works[0][1].max_bytes)
        throttle_ms = max((work.throttle_ms for _, work, _ in self.works), default=0)
        try:
            self.session.complete_fetch(self, self._encode(throttle_ms))
        except Exception as error:  # noqa: BLE001 - one client's bug, not the node's.
            self.failed(self._results, error)
        # Works refer to this reply; the cycle would keep their records until a garbage collection.
        self.works = []
        self._results = []
        if throttle_ms:
            self.session.mute(throttle_ms)

    def _keep_to_max_bytes(self, max_bytes: int) -> None:
        """Applies the limit to the whole reply: its first partitions get the bytes."""
        total = 0
        for result in self._results:
            if result is not None and result.nbytes:
                if total and total + result.nbytes > max_bytes:
                    result.release()
                else:
                    total += result.nbytes

    def abandon(self) -> None:
        """The client is gone: cancels the works and releases their results."""
        if self._done:
            return  # The reply was complete, but too late to be sent.
        self._done = True
        for link, work, _ in self.works:
            if not work.results:
                link.cancel_fetch(work)
            for result in work.results:
                result.release()
        self.session.finished(self.request_bytes)

    def _encode(self, throttle_ms: int) -> list[Part]:
        version = self._version
        may_copy = not self.session.shared.budget.replies_scarce
        meter = self.session.shared.meters.fetch
        responses = []
        leaders: list[CurrentLeader] = []
        place = 0
        for topic in self._request.topics:
            partitions = []
            for asked in topic.partitions:
                result = self._results[place]
                assert result is not None
                current = None
                if result.error_code:
                    client = self.session.client
                    routes = client.topics.find(topic.topic, topic.topic_id)
                    current = settle_refusal(
                        version, routes, asked.partition, result, client.peer.listener
                    )
                    if current is not None:
                        leaders.append(current)
                data = partition_data(asked.partition, result, current, may_copy=may_copy)
                if data.error_code:
                    meter.failed(data.error_code)
                partitions.append(data)
                place += 1
            responses.append(
                codec.FetchResponseFetchableTopicResponse(topic.topic, topic.topic_id, partitions)
            )
        return encode_parts(version, self._correlation_id, responses, throttle_ms, leaders)


def _learn(
    session: ClientSession, frame: bytearray, version: int, request: codec.FetchRequest
) -> FetchShape[TopicRoutes] | None:
    """Remembers a one-partition request, if the next one may take the fast path."""
    topic = request.topics[0]
    routes = session.client.topics.find(topic.topic, topic.topic_id)
    assert routes is not None  # The request has been sent to its leader.
    shape = learn(frame, version, topic.partitions[0], routes)
    if shape is None:
        return None
    shape.name = name_part(version, routes.name_bytes, routes.topic_id)
    shape.max_wait_ms = max(0, request.max_wait_ms)
    shape.max_bytes = min(max(0, request.max_bytes), RESPONSE_BYTES_MAX)
    shape.min_bytes = min(max(0, request.min_bytes), shape.max_bytes)
    shape.isolation_level = int(request.isolation_level == READ_COMMITTED)
    return shape


class SinglePartitionFetch(FailingReply):
    """A Fetch of one partition that has the shape of the connection's last one."""

    __slots__ = ("_correlation_id", "_link", "_partition", "_shape", "work")

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        correlation_id: int,
        partition: int,
        shape: FetchShape[TopicRoutes],
        link: NodeLink,
    ) -> None:
        self.session = session
        self.api_key = FETCH
        self.request_bytes = request_bytes
        self.arrived_ns = session.arrived_ns
        self.parts = None
        self._correlation_id = correlation_id
        self._partition = partition
        self._shape = shape
        self._link = link
        self.work: FetchWork | None = None
        """The fetch at the node, until it answers."""

    def work_done(self, work: FetchWork) -> None:
        """Packs the reply."""
        self.work = None
        try:
            self._pack(work)
        except Exception as error:  # noqa: BLE001 - one client's bug, not the node's.
            self.failed(work.results, error)
        if work.throttle_ms:
            self.session.mute(work.throttle_ms)

    def _pack(self, work: FetchWork) -> None:
        shape = self._shape
        result = work.results[0]
        if (
            0 < result.nbytes <= SMALL_RANGE
            and not isinstance(result.records, BUFFERS)
            and not self.session.shared.budget.replies_scarce
        ):
            read_small(result, result.records)
        if result.error_code or result.diverging_epoch >= 0 or result.aborted_transactions:
            self._pack_unusual(result, work.throttle_ms)
            return
        head, tail = pack_reply(
            shape, self._correlation_id, self._partition, result, work.throttle_ms
        )
        records = result.records
        if not result.nbytes:
            self.session.complete_fetch(self, head + tail)
        elif isinstance(records, BUFFERS):
            self.session.complete_fetch(self, b"".join((head, records, tail)))
        else:
            self.session.complete_fetch(self, [head, records, tail] if tail else [head, records])

    def _pack_unusual(self, result: FetchedPartition, throttle_ms: int) -> None:
        """Packs a result that the fast path cannot encode."""
        shape = self._shape
        session = self.session
        current = settle_refusal(
            shape.version, shape.topic, self._partition, result, session.client.peer.listener
        )
        may_copy = not session.shared.budget.replies_scarce
        data = partition_data(self._partition, result, current, may_copy=may_copy)
        if data.error_code:
            session.shared.meters.fetch.failed(data.error_code)
        topic = codec.FetchResponseFetchableTopicResponse(*shape.topic.key, [data])
        leaders = () if current is None else (current,)
        parts = encode_parts(shape.version, self._correlation_id, [topic], throttle_ms, leaders)
        session.complete_fetch(self, parts)

    def abandon(self) -> None:
        """The client is gone: cancels the work."""
        if self.work is not None:
            self._link.cancel_fetch(self.work)
            self.work = None
            self.session.finished(self.request_bytes)


class FetchPath:
    """Handles the Fetch frames of all sessions of a loop."""

    __slots__ = ("_authorizer",)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def start(self, session: ClientSession, frame: bytearray) -> None:
        """Starts a request, which is already counted as outstanding."""
        _, version, correlation_id = _unpack_head(frame)
        shape: FetchShape[TopicRoutes] | None = session.fetch_shape
        if (
            shape is not None
            and shape.version == version
            and not shape.topic.gone
            and self._short_way(session, frame, correlation_id, shape)
        ):
            return
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        if request.session_epoch > 0:
            # This gateway never gave out the session (KIP-227); clients then fetch in full.
            session.shared.meters.fetch.failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            gone = Reply(FETCH, len(frame), session.arrived_ns)
            session.expect(gone)
            session.complete_fetch(gone, session_not_found(version, correlation_id))
            return
        places = sum(len(t.partitions) for t in request.topics)
        reply = FetchReply(session, len(frame), version, correlation_id, request, places)
        session.expect(reply)
        self._route(session, request, reply)
        works = reply.works
        if places == len(request.topics) == 1 and works:
            session.fetch_shape = _learn(session, frame, version, request)
        if not works:
            reply.finish()
            return
        reply.send()

    def _short_way(
        self,
        session: ClientSession,
        frame: bytearray,
        correlation_id: int,
        shape: FetchShape[TopicRoutes],
    ) -> bool:
        """Starts a request that has the shape of the last one; False if it does not."""
        found = match(shape, frame)
        if found is None:
            return False
        partition, current_leader_epoch, offset, last_fetched_epoch, max_bytes = found
        routes = shape.topic.partitions
        if not 0 <= partition < len(routes):
            return False
        route = routes[partition]
        link = route.link
        if link is None:
            return False
        reply = SinglePartitionFetch(session, len(frame), correlation_id, partition, shape, link)
        session.replies.append(reply)
        work = reply.work = FetchWork(
            instance=route.instance,
            partitions=[
                FetchPartition(
                    route.topic_id,
                    partition,
                    current_leader_epoch,
                    offset,
                    last_fetched_epoch,
                    max(0, max_bytes),
                )
            ],
            max_wait_ms=shape.max_wait_ms,
            min_bytes=shape.min_bytes,
            max_bytes=shape.max_bytes,
            isolation_level=shape.isolation_level,
            done=reply.work_done,
            memory=session.shared.budget,
        )
        link.fetch(work)  # The answer may come at once.
        return True

    def _route(
        self, session: ClientSession, request: codec.FetchRequest, reply: FetchReply
    ) -> None:
        """Groups the partitions by leader node."""
        topics = session.client.topics
        by_link: dict[NodeLink, tuple[list[FetchPartition], list[int]]] = {}
        place = 0
        refused = False
        denied = unreadable_topics(self._authorizer, session.client, request)
        replica = is_of_replica(request)
        for topic in request.topics:
            routes = topics.find(topic.topic, topic.topic_id)
            count = len(routes.partitions) if routes is not None else 0
            hidden = (topic.topic if routes is None else routes.name) in denied
            for asked in topic.partitions:
                error = 0
                link: NodeLink | None = None
                if replica:
                    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                elif hidden:
                    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif routes is None or not 0 <= asked.partition < count:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    route = routes.partitions[asked.partition]
                    link = route.link
                    if link is None:
                        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                if link is None:
                    refused = True
                    reply.set_result(place, FetchedPartition(error))
                else:
                    partitions, places = by_link.setdefault(link, ([], []))
                    partitions.append(
                        FetchPartition(
                            route.topic_id,
                            asked.partition,
                            asked.current_leader_epoch,
                            asked.fetch_offset,
                            asked.last_fetched_epoch,
                            max(0, asked.partition_max_bytes),
                        )
                    )
                    places.append(place)
                place += 1
        max_bytes = min(max(0, request.max_bytes), RESPONSE_BYTES_MAX)
        # Answers of several nodes wait for one another, so their records should stay in files.
        memory = session.shared.budget if len(by_link) == 1 else None
        for link, (partitions, places) in by_link.items():
            work = FetchWork(
                instance=session.client.instance,
                partitions=partitions,
                max_wait_ms=0 if refused else max(0, request.max_wait_ms),
                min_bytes=min(max(0, request.min_bytes), max_bytes),
                max_bytes=max_bytes,
                isolation_level=int(request.isolation_level == READ_COMMITTED),
                done=reply.work_done,
                memory=memory,
            )
            reply.start(link, work, places)
