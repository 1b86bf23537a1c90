"""The fast path for a Fetch of one partition, by the shape of the connection's last one.

In a session of one partition the shape knows the session's next epoch (`FetchShape.expect`). Hot path.
"""

from highwater.gateway.core.empty_fetch import pack_empty_reply
from highwater.gateway.core.fetch_limits import FetchLimits, limits_of
from highwater.gateway.core.fetch_session import FIRST_EPOCH, CachedPartition, FetchSession
from highwater.gateway.core.fetch_shape import FetchShape, learn, match, name_part, pack_reply
from highwater.gateway.core.meters import FETCH
from highwater.gateway.data_plane.fetch_encoding import (
    encode_parts,
    partition_data,
    read_small,
    settle_refusal,
)
from highwater.gateway.data_plane.fetch_reply import FailingReply
from highwater.gateway.data_plane.fetch_sessions import FetchSessions
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.table import PartitionRoute, TopicRoutes
from highwater.hop.fetch import BUFFERS, SMALL_RANGE, FetchedPartition, FetchPartition, FetchWork
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch as codec
from highwater.model.ids import NodeId


def learn_shape(
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
    shape.limits = limits_of(request, session.quota)
    shape.session_epoch = request.session_epoch
    return shape


def learn_in_session(
    session: ClientSession,
    frame: bytearray,
    version: int,
    request: codec.FetchRequest,
) -> None:
    """Remembers a request for the only partition of the connection's fetch session, if it is that."""
    fetch_session = session.client.fetch_session
    if fetch_session is None or len(fetch_session.partitions) != 1:
        return
    (cached,) = fetch_session.partitions.values()
    named = [(topic, asked) for topic in request.topics for asked in topic.partitions]
    if len(named) != 1 or cached.link is None or request.forgotten_topics_data:
        return
    shape = learn_shape(session, frame, version, request)
    if shape is not None:
        shape.cached = cached
        shape.expect(frame, fetch_session.session_id, fetch_session.epoch)
    session.fetch_shape = shape


class SinglePartitionFetch(FailingReply):
    """A Fetch of one partition that has the shape of the connection's last one."""

    __slots__ = ("_correlation_id", "_link", "_partition", "_shape", "in_session", "work")

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
        self.in_session: FetchSession[NodeLink] | None = None
        """The fetch session, in which an answer without news is an empty reply."""

    def work_done(self, work: FetchWork) -> None:
        """Packs the reply."""
        self.work = None
        quota = self.session.quota
        if quota is not None:
            work.throttle_ms = quota.consumed(work.results[0].nbytes, work.throttle_ms)
        try:
            if self.in_session is None or self._has_news(self.in_session, work):
                self._pack(work)
        except Exception as error:  # noqa: BLE001 - one client's bug, not the node's.
            self.failed(work.results, error)
        if work.throttle_ms:
            self.session.mute(work.throttle_ms)

    def _has_news(self, fetch_session: FetchSession[NodeLink], work: FetchWork) -> bool:
        """False if the client knows all of the answer already: then it has got an empty reply."""
        fetch_session.reply = None
        shape = self._shape
        if shape.cached is None or shape.cached.tell(work.results[0]):
            return True
        correlation_id, session_id = self._correlation_id, shape.session_id
        self.session.complete_fetch(
            self, pack_empty_reply(shape.version, correlation_id, session_id, work.throttle_ms)
        )
        return False

    def _pack(self, work: FetchWork) -> None:
        shape = self._shape
        result = work.results[0]
        if (
            0 < result.nbytes <= SMALL_RANGE
            and not isinstance(result.records, BUFFERS)
            and not self.session.shared.budget.replies_scarce
        ):
            read_small(result, result.records)
        if result.error_code or result.diverging_epoch >= 0 or result.preferred_replica >= 0:
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
            shape.version, shape.topic, self._partition, result, session.client.peer.entrance
        )
        may_copy = not session.shared.budget.replies_scarce
        data = partition_data(self._partition, result, current, may_copy=may_copy)
        if data.error_code:
            session.shared.meters.fetch.failed(data.error_code)
        topic = codec.FetchResponseFetchableTopicResponse(*shape.topic.key, [data])
        leaders = () if current is None else (current,)
        parts = encode_parts(
            shape.version, self._correlation_id, [topic], throttle_ms, leaders, shape.session_id
        )
        session.complete_fetch(self, parts)

    def abandon(self) -> None:
        """The client is gone: cancels the work."""
        if self.work is not None:
            self._cancel(self.work)
            self.session.finished(self.request_bytes)

    def overtaken(self) -> None:
        """See `OngoingFetch`."""
        if self.work is not None:
            self._cancel(self.work)
            code = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            self.session.shared.meters.fetch.failed(code)
            shape = self._shape
            reply = pack_empty_reply(shape.version, self._correlation_id, shape.session_id, 0, code)
            self.session.complete_fetch(self, reply)

    def _cancel(self, work: FetchWork) -> None:
        self._link.cancel_fetch(work)
        self.work = None
        if self.in_session is not None:
            self.in_session.reply = None


def short_way(
    session: ClientSession,
    frame: bytearray,
    correlation_id: int,
    shape: FetchShape[TopicRoutes],
    sessions: FetchSessions,
) -> bool:
    """Starts a request that has the shape of the last one; False if it does not."""
    found = match(shape, frame)
    if found is None:
        return False
    partition, current_leader_epoch, offset, last_fetched_epoch, asked_bytes = found
    routes = shape.topic.partitions
    if not 0 <= partition < len(routes):
        return False
    route = routes[partition]
    link = route.link
    max_wait_ms, min_bytes, max_bytes, isolation_level, rack = shape.limits
    near: tuple[NodeId, ...] = ()
    if rack:
        link, near = _near(session, shape, route, shape.limits.rack)
    if link is None:
        return False
    reply = SinglePartitionFetch(session, len(frame), correlation_id, partition, shape, link)
    asked = FetchPartition(
        route.topic_id,
        partition,
        current_leader_epoch,
        offset,
        last_fetched_epoch,
        max(0, asked_bytes),
    )
    if shape.session_id:
        fetch_session = session.client.fetch_session
        cached = shape.cached
        if (
            fetch_session is None
            or cached is None
            or fetch_session.session_id != shape.session_id
            or fetch_session.epoch != shape.session_epoch
            or not _is_alone(fetch_session, cached, partition, link)
            or not sessions.begin(session, fetch_session)
        ):
            return False
        fetch_session.sets[link].update(cached.place, asked)
        cached.asked.fetch_offset = offset
        cached.asked.current_leader_epoch = current_leader_epoch
        cached.asked.last_fetched_epoch = last_fetched_epoch
        cached.asked.partition_max_bytes = asked_bytes
        _expect_next(reply, fetch_session, shape)
    elif shape.session_epoch == FIRST_EPOCH and sessions.may_open(session):
        return False
    # As `_send`: the call would cost as much as what it does.
    session.replies.append(reply)
    work = reply.work = FetchWork(
        instance=session.client.instance,
        partitions=[asked],
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        done=reply.work_done,
        memory=session.shared.budget,
        near=near,
    )
    link.fetch(work)  # The answer may come at once.
    return True


def short_way_again(
    session: ClientSession,
    request_bytes: int,
    version: int,
    correlation_id: int,
    fetch_session: FetchSession[NodeLink],
    limits: FetchLimits,
    sessions: FetchSessions,
) -> bool:
    """Starts a request that names no partition, in a session of one; False if it is of more."""
    shape = session.fetch_shape
    if (
        shape is None
        or shape.version != version
        or shape.topic.gone
        or shape.session_id != fetch_session.session_id
    ):
        return False
    cached = shape.cached
    if cached is None:
        return False
    link: NodeLink | None = cached.link
    partition = cached.asked.partition
    route = shape.topic.partitions[partition]
    present = route.link
    near: tuple[NodeId, ...] = ()
    if limits.rack:
        present, near = _near(session, shape, route, limits.rack)
    if (
        link is None
        or present is not link
        or not _is_alone(fetch_session, cached, partition, link)
        or not sessions.begin(session, fetch_session)
    ):
        return False
    reply = SinglePartitionFetch(session, request_bytes, correlation_id, partition, shape, link)
    _expect_next(reply, fetch_session, shape)
    _send(session, reply, fetch_session.sets[link].asked[cached.place], limits, link, near)
    return True


def _near(
    session: ClientSession, shape: FetchShape[TopicRoutes], route: PartitionRoute, rack: str
) -> tuple[NodeLink | None, tuple[NodeId, ...]]:
    """For a client that names its rack, the link to fetch by and the nodes that are near."""
    client = session.client
    near = client.near(rack)
    return shape.topic.link_for(route.partition, client.peer.node, near), near


def _is_alone(
    fetch_session: FetchSession[NodeLink],
    cached: CachedPartition[NodeLink],
    partition: int,
    link: NodeLink,
) -> bool:
    """True if the session has only this partition, and that node is asked for it."""
    return (
        len(fetch_session.partitions) == 1
        and fetch_session.places.get(cached.place) is cached
        and cached.asked.partition == partition
        and cached.link is link
    )


def _expect_next(
    reply: SinglePartitionFetch,
    fetch_session: FetchSession[NodeLink],
    shape: FetchShape[TopicRoutes],
) -> None:
    reply.in_session = fetch_session
    fetch_session.reply = reply
    shape.expect_epoch(fetch_session.epoch)


def _send(
    session: ClientSession,
    reply: SinglePartitionFetch,
    asked: FetchPartition,
    limits: FetchLimits,
    link: NodeLink,
    near: tuple[NodeId, ...],
) -> None:
    session.replies.append(reply)
    max_wait_ms, min_bytes, max_bytes, isolation_level, _ = limits
    work = reply.work = FetchWork(
        instance=session.client.instance,
        partitions=[asked],
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        done=reply.work_done,
        memory=session.shared.budget,
        near=near,
    )
    link.fetch(work)  # The answer may come at once.
