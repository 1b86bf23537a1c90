"""Fetch (key 1), served from version 4 to 18: one work per leader, one reply.

- v4 isolation level, v5 log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320),
  v10 zstd, v11 rack, v12 flexible, v13 topic ids (KIP-516): an unknown one is UNKNOWN_TOPIC_ID,
  and one of a deleted topic never means the topic made anew under its name. v15 moves the replica
  id into a tag, v16 has addresses of current leaders (KIP-951), v17 and v18 tags of replicas.
- If the node's files can be read, large records never pass through this process: a reply's part is
  a range of a segment file. Small ones come as bytes, or are read (`hop.fetch.SMALL_RANGE`).
- Without READ on a topic its partitions are TOPIC_AUTHORIZATION_FAILED.
- With a rack (client.rack, v11) a leader elsewhere names a follower in it (KIP-392), if the setting
  `replica_selector_class` of its node says so, and a follower in it answers at its own port: up to
  the high watermark that it knows, and OFFSET_OUT_OF_RANGE beyond its log's end, as in Kafka.
- Sessions are this gateway's (see `fetch_sessions`): FETCH_SESSION_ID_NOT_FOUND elsewhere,
  INVALID_FETCH_SESSION_EPOCH out of order, FETCH_SESSION_TOPIC_ID_ERROR if names and ids are mixed.

Deviations
- A session is found only by the principal and the instance that began it. A partition is also told
  when its last stable offset has changed.
- If a new leader's high watermark may be below its predecessor's, a fetch without records waits,
  and then gets OFFSET_NOT_AVAILABLE, before v11 NOT_LEADER_OR_FOLLOWER; Kafka returns the smaller
  high watermark.
- A follower that is not in the client's rack does not answer: its port stands for the leader then.
- Replicas do not fetch here: a request with replica id >= 0 is refused.
- INCONSISTENT_TOPIC_ID is never sent: logs belong to ids, so none is that of another id.
"""

from struct import Struct
from typing import Final

from highwater.gateway.core.empty_fetch import SESSIONS_FROM
from highwater.gateway.core.fetch_limits import limits_of
from highwater.gateway.core.fetch_session import FIRST_EPOCH
from highwater.gateway.core.reply import Part
from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.gateway.data_plane.denials import is_of_replica, unreadable_topics
from highwater.gateway.data_plane.fetch_encoding import (
    encode_parts,
    partition_data,
    settle_refusal,
)
from highwater.gateway.data_plane.fetch_reply import FetchReply
from highwater.gateway.data_plane.fetch_sessions import FetchSessions
from highwater.gateway.data_plane.single_fetch import (
    learn_in_session,
    learn_shape,
    short_way,
    short_way_again,
)
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.current_leader import CurrentLeader
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchWork
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch as codec
from highwater.model.authorization import Authorizer

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
_DECODER: Final = RequestDecoder("Fetch", range(MIN_VERSION, MAX_VERSION + 1), codec.decode_request)
_unpack_head = Struct(">hhi").unpack_from


class WholeFetch(FetchReply):
    """A Fetch that names all of its partitions, whose places are those in the request."""

    __slots__ = ("_request", "_sessions")

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        request: codec.FetchRequest,
        sessions: FetchSessions | None,
    ) -> None:
        """With `sessions`, the reply begins a fetch session."""
        super().__init__(session, request_bytes, version, correlation_id)
        self._request = request
        self._sessions = sessions

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
                current = None
                if result.error_code:
                    client = self.session.client
                    routes = client.topics.find(topic.topic, topic.topic_id)
                    current = settle_refusal(
                        version, routes, asked.partition, result, client.peer.entrance
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
        session_id = 0
        if self._sessions is not None:
            session_id = self._sessions.open(self.session, version, self._request, self._results)
        return encode_parts(
            version, self._correlation_id, responses, throttle_ms, leaders, session_id
        )


class FetchPath:
    """Handles the Fetch frames of all sessions of a loop."""

    __slots__ = ("_authorizer", "_sessions")

    def __init__(self, authorizer: Authorizer, sessions: FetchSessions) -> None:
        self._authorizer = authorizer
        self._sessions = sessions

    def start(self, session: ClientSession, frame: bytearray) -> None:
        """Starts a request, which is already counted as outstanding."""
        _, version, correlation_id = _unpack_head(frame)
        shape = session.fetch_shape
        sessions = self._sessions
        if (
            shape is not None
            and shape.version == version
            and not shape.topic.gone
            and short_way(session, frame, correlation_id, shape, sessions)
        ):
            return
        limits = sessions.empty_fetch(session, frame, version)
        fetch_session = session.client.fetch_session
        if limits is not None and fetch_session is not None:
            nbytes = len(frame)
            again = (session, nbytes, version, correlation_id, fetch_session, limits, sessions)
            if not short_way_again(*again):
                sessions.go_on(session, nbytes, version, correlation_id, fetch_session, limits)
            return
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        if sessions.start(session, frame, version, correlation_id, request):
            learn_in_session(session, frame, version, request)
            return
        places = sum(len(t.partitions) for t in request.topics)
        opens = request.session_epoch == FIRST_EPOCH and version >= SESSIONS_FROM
        opens = opens and not is_of_replica(request)
        reply = WholeFetch(
            session, len(frame), version, correlation_id, request, sessions if opens else None
        )
        session.expect(reply)
        self.route(session, request, reply)
        works = reply.works
        if places == len(request.topics) == 1 and works:
            session.fetch_shape = learn_shape(session, frame, version, request)
        if not works:
            reply.finish()
            return
        reply.send()

    def hold(self, session: ClientSession, frame: bytearray, throttle_ms: int) -> None:
        """Answers a request without records, as its client is over its quota, and mutes the client."""
        _, version, correlation_id = _unpack_head(frame)
        request = _DECODER.decode(session, frame, version)
        if request is not None:
            self._sessions.hold(session, frame, version, correlation_id, request, throttle_ms)

    def route(self, session: ClientSession, request: codec.FetchRequest, reply: WholeFetch) -> None:
        """Gives the reply works, one for each node: the leader's, or one near to the client. It gets
        the errors of all other partitions at once.
        """
        topics = session.client.topics
        by_link: dict[NodeLink, tuple[list[FetchPartition], list[int]]] = {}
        place = 0
        refused = False
        denied = unreadable_topics(self._authorizer, session.client, request)
        replica = is_of_replica(request)
        limits, port_of = limits_of(request, session.quota), session.client.peer.node
        near = session.client.near(limits.rack)
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
                    if near:
                        link = routes.link_for(asked.partition, port_of, near)
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
        # Answers of several nodes wait for one another, so their records should stay in files.
        memory = session.shared.budget if len(by_link) == 1 else None
        for link, (partitions, places) in by_link.items():
            work = FetchWork(
                instance=session.client.instance,
                partitions=partitions,
                max_wait_ms=0 if refused else limits.max_wait_ms,
                min_bytes=limits.min_bytes,
                max_bytes=limits.max_bytes,
                isolation_level=limits.isolation_level,
                done=reply.work_done,
                memory=memory,
                near=near,
            )
            reply.start(link, work, places)
