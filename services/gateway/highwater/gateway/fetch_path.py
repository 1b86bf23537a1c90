"""Fetch (key 1), served from version 4 to 12: one work per leader, one reply.

- v4 isolation level, v5 log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320),
  v10 zstd, v11 rack, v12 flexible. Topic ids begin at v13, which is not served yet.
- Sessions are declined: the reply has session id 0, so clients keep sending whole fetches.
- Replicas do not fetch here: a request with replica id >= 0 is refused.
- Records never pass through this process if the node's files can be read: a reply's part is a
  range of a segment file.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from highwater.gateway.core.session import Reply, Session
from highwater.gateway.metrics import RequestMeter
from highwater.gateway.routing import RoutingTable
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchWork
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError
from highwater.kafka.framing import decode_request_header, encode_response_header
from highwater.kafka.messages import fetch as codec

MIN_VERSION: Final = 4
MAX_VERSION: Final = 12
RESPONSE_BYTES_MAX: Final = 64 << 20
"""fetch.max.bytes of the broker; Kafka's default is 55 MiB. Files are sent, not held."""

_unpack_head = Struct(">hhi").unpack_from


class FetchReply(Reply):
    """A Fetch under way: works at one or more nodes, results by place in the request."""

    __slots__ = ("_correlation_id", "_done", "_missing", "_request", "_results", "_version", "works")

    def __init__(
        self,
        session: Session,
        request_bytes: int,
        version: int,
        correlation_id: int,
        request: Any,
        places: int,
    ) -> None:
        super().__init__(session, request_bytes)
        self._version = version
        self._correlation_id = correlation_id
        self._request = request
        self._results: list[FetchedPartition | None] = [None] * places
        self.works: list[tuple[NodeLink, FetchWork, list[int]]] = []
        self._missing = 0
        self._done = False

    def set_result(self, place: int, result: FetchedPartition) -> None:
        """A result that needs no node."""
        self._results[place] = result

    def start(self, link: NodeLink, work: FetchWork, places: list[int]) -> None:
        """Notes a work before any of them is sent."""
        self.works.append((link, work, places))
        self._missing += 1

    def work_done(self, work: FetchWork) -> None:
        """A node has answered; the first with data or errors ends the wait of the others."""
        nbytes = 0
        failed = False
        for _, other, places in self.works:
            if other is work:
                for place, result in zip(places, work.results, strict=True):
                    self._results[place] = result
                    nbytes += result.nbytes
                    failed = failed or result.error_code != 0
        self._missing -= 1
        if self._done:
            for result in work.results:
                result.release()
        elif self._missing == 0 or nbytes >= work.min_bytes or failed:
            self.finish()

    def finish(self) -> None:
        """Replies with what is there; partitions of nodes still asked come back empty."""
        self._done = True
        if self._missing:
            for link, work, places in self.works:
                if not work.results:
                    link.cancel_fetch(work)
                    for place in places:
                        self._results[place] = FetchedPartition(0)
        self.session.complete(self, self._encode())

    def abandon(self) -> None:
        """The client is gone."""
        self._done = True
        for link, work, _ in self.works:
            if not work.results:
                link.cancel_fetch(work)
        self.session.finished(self.request_bytes)

    def _encode(self) -> list[Any]:
        version = self._version
        responses = []
        place = 0
        throttle_ms = max((work.throttle_ms for _, work, _ in self.works), default=0)
        for topic in self._request.topics:
            partitions = []
            for asked in topic.partitions:
                partitions.append(_partition_data(asked.partition, self._results[place]))
                place += 1
            responses.append(
                codec.FetchResponseFetchableTopicResponse(
                    topic=topic.topic, partitions=partitions
                )
            )
        parts = codec.encode_response_parts(
            codec.FetchResponse(throttle_time_ms=throttle_ms, responses=responses), version
        )
        header = encode_response_header(codec.API_KEY, version, self._correlation_id)
        size = len(header)
        for part in parts:
            size += len(part) if isinstance(part, bytes | bytearray | memoryview) else part.length
        first = size.to_bytes(4, "big") + header
        if type(parts[0]) is bytes:
            parts[0] = first + parts[0]
            return parts
        return [first, *parts]


def _partition_data(partition: int, result: FetchedPartition | None) -> Any:
    assert result is not None
    data = codec.FetchResponsePartitionData(
        partition_index=partition,
        error_code=result.error_code,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        records=result.records,
    )
    if result.aborted_transactions is None:
        data.aborted_transactions = None
    else:
        data.aborted_transactions = [
            codec.FetchResponseAbortedTransaction(producer_id=p, first_offset=o)
            for p, o in result.aborted_transactions
        ]
    if result.diverging_epoch >= 0:
        data.diverging_epoch = codec.FetchResponseEpochEndOffset(
            epoch=result.diverging_epoch, end_offset=result.diverging_end_offset
        )
    return data


class FetchPath:
    """Handles the Fetch frames of all sessions of a loop."""

    def __init__(
        self, *, routing: RoutingTable, meter: RequestMeter, now_ms: Callable[[], int]
    ) -> None:
        self._routing = routing
        self._meter = meter
        self._now_ms = now_ms

    def __call__(self, session: Session, frame: bytearray) -> None:
        """Starts one request; it counts as outstanding already."""
        _, version, correlation_id = _unpack_head(frame)
        if not MIN_VERSION <= version <= MAX_VERSION:
            session.finished(len(frame))
            session.wire.close(f"Fetch version {version} is not served")
            return
        try:
            *_, body_at = decode_request_header(frame, 0)
            request = codec.decode_request(frame, body_at, version)
        except DecodeError as error:
            session.finished(len(frame))
            session.wire.close(f"malformed Fetch: {error}")
            return
        places = sum(len(t.partitions) for t in request.topics)
        reply = FetchReply(session, len(frame), version, correlation_id, request, places)
        session.expect(reply)
        self._route(session, request, reply)
        works = reply.works
        if not works:
            reply.finish()
            return
        if len(works) > 1:
            # Every node would wait for min_bytes of its own; the first that has any answers.
            for _, work, _ in works:
                work.min_bytes = min(work.min_bytes, 1)
        for link, work, _ in works:
            if not work.cancelled:
                link.fetch(work)

    def _route(self, session: Session, request: Any, reply: FetchReply) -> None:
        """Sorts the partitions by the node that leads them."""
        topics = session.client.topics
        by_link: dict[NodeLink, tuple[list[FetchPartition], list[int]]] = {}
        place = 0
        refused = False
        for topic in request.topics:
            routes = topics.get(topic.topic.encode())
            count = len(routes.partitions) if routes is not None else 0
            for asked in topic.partitions:
                error = 0
                if request.replica_id >= 0:
                    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                elif routes is None or not 0 <= asked.partition < count:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    route = routes.partitions[asked.partition]
                    if route.link is None:
                        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                if error:
                    refused = True
                    reply.set_result(place, FetchedPartition(error))
                else:
                    partitions, places = by_link.setdefault(route.link, ([], []))
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
        for link, (partitions, places) in by_link.items():
            work = FetchWork(
                instance=session.client.instance,
                partitions=partitions,
                max_wait_ms=0 if refused else max(0, request.max_wait_ms),
                min_bytes=max(0, request.min_bytes),
                max_bytes=min(max(0, request.max_bytes), RESPONSE_BYTES_MAX),
                isolation_level=request.isolation_level,
                done=reply.work_done,
            )
            reply.start(link, work, places)
