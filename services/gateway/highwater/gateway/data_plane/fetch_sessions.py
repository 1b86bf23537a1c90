"""The Fetch path's end of fetch sessions: begins and ends them, and finds their partitions' nodes.

Rules: Kafka's `FetchManager.newContext`. Every fetch of a session asks for READ on all its topics, as
authorization may have changed; routes are looked up again when any route of the instance has changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from highwater.gateway.core.empty_fetch import EmptyFetchShape, pack_empty_reply
from highwater.gateway.core.fetch_limits import FetchLimits, limits_of
from highwater.gateway.core.fetch_session import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    next_epoch,
)
from highwater.gateway.core.fetch_session_cache import FetchSessionCache
from highwater.gateway.core.fetch_shape import TOPIC_IDS_FROM
from highwater.gateway.core.meters import FETCH
from highwater.gateway.core.reply import Reply
from highwater.gateway.data_plane.fetch_encoding import encode_parts
from highwater.gateway.data_plane.session_fetch import SessionFetch
from highwater.gateway.routing.client import ClientInfo, ClientSession
from highwater.gateway.routing.table import InstanceTopics
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchSet, FetchWork
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import FetchRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Authorizer, ResourceType, denied_names

SET_FROM: Final = 4
"""Partitions of one node from which a fetch set costs less than asking for all of them again."""


_Joined: TypeAlias = tuple[FetchSession[NodeLink], FetchLimits, Sequence[CachedPartition[NodeLink]]]
"""A request's session, its limits, and the partitions that it asks for anew."""


def end_sets(fetch_session: FetchSession[NodeLink]) -> None:
    """Lets the nodes forget a session that the cache no longer has, and its fetch, if one waits."""
    fetch_session.epoch = FIRST_EPOCH  # Which no fetch of a session has.
    if fetch_session.reply is not None:
        fetch_session.reply.overtaken()
    for link, fetch_set in fetch_session.sets.items():
        link.end_fetch_set(fetch_set)
    fetch_session.sets.clear()


class FetchSessions:
    """See the module. Lives as long as the gateway."""

    __slots__ = ("_authorizer", "_cache")

    def __init__(self, authorizer: Authorizer, cache: FetchSessionCache[NodeLink]) -> None:
        """The cache's `ended` is `end_sets`."""
        self._authorizer = authorizer
        self._cache = cache

    # ---- sessions ----

    def may_open(self, session: ClientSession) -> bool:
        """True if a session of one partition would probably find room."""
        return self._cache.may_open(1, session.shared.now_ms)

    def open(
        self,
        session: ClientSession,
        version: int,
        request: FetchRequest,
        results: Mapping[int, FetchedPartition],
    ) -> int:
        """Begins a session with the partitions of a full fetch; its id, or 0 without room for it.

        `results` are what the client is told, by place in the request.
        """
        opened = self._cache.open(
            session.client.identity, version >= TOPIC_IDS_FROM, len(results), session.shared.now_ms
        )
        if opened is None:
            return NO_SESSION
        place = 0
        for topic in request.topics:
            for asked in topic.partitions:
                opened.ask(topic.topic, topic.topic_id, asked).tell(results[place])
                place += 1
        return opened.session_id

    def begin(self, session: ClientSession, fetch_session: FetchSession[NodeLink]) -> bool:
        """Begins a fetch of the session; False if the cache has removed it."""
        if fetch_session.reply is not None:
            fetch_session.reply.overtaken()
        if not self._cache.touch(fetch_session, session.shared.now_ms):
            return False
        fetch_session.epoch = next_epoch(fetch_session.epoch)
        return True

    # ---- requests ----

    def empty_fetch(
        self, session: ClientSession, frame: bytearray, version: int
    ) -> FetchLimits | None:
        """The limits of a request that is the next one of the connection's session, and names no
        partition; None for other requests.
        """
        fetch_session = session.client.fetch_session
        empty = None if fetch_session is None else fetch_session.empty
        if (
            fetch_session is not None
            and empty is not None
            and empty.version == version
            and empty.matches(frame, fetch_session.epoch)
        ):
            return empty.limits
        return None

    def start(
        self,
        session: ClientSession,
        frame: bytearray,
        version: int,
        correlation_id: int,
        request: FetchRequest,
    ) -> bool:
        """Starts a request of a session, or refuses it; False if it is a full one, to be started
        without. A full one ends the session that it names.
        """
        joined = self._join(session, frame, version, request)
        if joined is None:
            return False
        if isinstance(joined, ErrorCode):
            self._refuse(session, len(frame), version, correlation_id, joined)
        else:
            fetch_session, limits, changed = joined
            nbytes = len(frame)
            self.go_on(session, nbytes, version, correlation_id, fetch_session, limits, changed)
        return True

    def hold(
        self,
        session: ClientSession,
        frame: bytearray,
        version: int,
        correlation_id: int,
        request: FetchRequest,
        throttle_ms: int,
    ) -> None:
        """Answers a request with nothing but a throttle time, and mutes its client.

        In a session it is the next one all the same, and what it says of partitions counts. A full one
        begins no session (Kafka: `FetchContext.getThrottledResponse`).
        """
        joined = self._join(session, frame, version, request)
        session_id, code = NO_SESSION, ErrorCode.NONE
        if isinstance(joined, ErrorCode):
            code = joined
        elif joined is not None:
            fetch_session, limits, changed = joined
            if self._advance(session, fetch_session, limits, changed):
                session_id = fetch_session.session_id
            else:
                code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if code:
            self._refuse(session, len(frame), version, correlation_id, code)
            return
        reply = Reply(FETCH, len(frame), session.arrived_ns)
        session.expect(reply)
        parts = encode_parts(version, correlation_id, [], throttle_ms, session_id=session_id)
        session.complete_fetch(reply, parts)
        session.mute(throttle_ms)

    def _join(
        self, session: ClientSession, frame: bytearray, version: int, request: FetchRequest
    ) -> _Joined | ErrorCode | None:
        """Makes a request's changes to the session that it belongs to; None if it is a full one."""
        client = session.client
        client.fetch_session = None
        found = self._cache.find(request.session_id, client.identity)
        epoch = request.session_epoch
        if epoch in (FIRST_EPOCH, FINAL_EPOCH):
            if found is not None:
                self._cache.remove(found)
            return None
        if found is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if found.by_id != (version >= TOPIC_IDS_FROM):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        changed = [
            found.ask(topic.topic, topic.topic_id, asked)
            for topic in request.topics
            for asked in topic.partitions
        ]
        for forgotten in request.forgotten_topics_data:
            for partition in forgotten.partitions:
                found.forget((forgotten.topic or forgotten.topic_id, partition))
        if not found.partitions:
            self._cache.remove(found)
            request.session_epoch = FINAL_EPOCH
            return None
        client.fetch_session = found
        limits = limits_of(request, session.quota)
        if not changed and not request.forgotten_topics_data:
            found.empty = EmptyFetchShape(version, frame, limits)
        return found, limits, changed

    def go_on(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        fetch_session: FetchSession[NodeLink],
        limits: FetchLimits,
        changed: Sequence[CachedPartition[NodeLink]] = (),
    ) -> None:
        """Starts the session's next fetch, after `changed` partitions have been asked for."""
        if not self._advance(session, fetch_session, limits, changed):
            refused = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._refuse(session, request_bytes, version, correlation_id, refused)
            return
        reply = SessionFetch(session, request_bytes, version, correlation_id, fetch_session)
        fetch_session.reply = reply
        session.expect(reply)
        for place, code in fetch_session.errors.items():
            reply.set_result(place, FetchedPartition(code))
        self._add_works(session, fetch_session, limits, reply)
        if reply.works:
            reply.send()
        else:
            reply.finish()

    def _advance(
        self,
        session: ClientSession,
        fetch_session: FetchSession[NodeLink],
        limits: FetchLimits,
        changed: Sequence[CachedPartition[NodeLink]],
    ) -> bool:
        """Begins a fetch and finds the nodes of its partitions; False if the session is gone."""
        if not self.begin(session, fetch_session):
            return False
        near = session.client.near(limits.rack)
        if near != fetch_session.near:
            fetch_session.near = near
            fetch_session.routed_at = -1
        self._route(session, fetch_session, changed)
        return True

    def _refuse(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        code: ErrorCode,
    ) -> None:
        """Tells the client to begin a new session."""
        session.shared.meters.fetch.failed(code)
        reply = Reply(FETCH, request_bytes, session.arrived_ns)
        session.expect(reply)
        session.complete_fetch(
            reply, pack_empty_reply(version, correlation_id, NO_SESSION, 0, code)
        )

    # ---- nodes ----

    def _add_works(
        self,
        session: ClientSession,
        fetch_session: FetchSession[NodeLink],
        limits: FetchLimits,
        reply: SessionFetch,
    ) -> None:
        """One work for each node, of all of its partitions or of its fetch set."""
        places = fetch_session.places
        # Answers of several nodes wait for one another, so their records should stay in files.
        memory = session.shared.budget if len(fetch_session.sets) == 1 else None
        for link, fetch_set in fetch_session.sets.items():
            asked: list[int] = []
            is_set = len(fetch_set.asked) >= SET_FROM
            if not is_set:
                asked = sorted(fetch_set.asked, key=lambda place: places[place].order)
                link.end_fetch_set(fetch_set)
            work = FetchWork(
                instance=session.client.instance,
                partitions=[fetch_set.asked[place] for place in asked],
                max_wait_ms=0 if fetch_session.errors else limits.max_wait_ms,
                min_bytes=limits.min_bytes,
                max_bytes=limits.max_bytes,
                isolation_level=limits.isolation_level,
                done=reply.work_done,
                memory=memory,
                fetch_set=fetch_set if is_set else None,
                near=fetch_session.near,
            )
            reply.start(link, work, asked)

    def _route(
        self,
        session: ClientSession,
        fetch_session: FetchSession[NodeLink],
        changed: Iterable[CachedPartition[NodeLink]],
    ) -> None:
        """Finds the nodes of partitions that are asked for anew, and of all after a change."""
        client = session.client
        topics = client.topics
        denied = frozenset[str]()
        if not self._authorizer.allows_all:
            names = {_name(topics, cached) for cached in fetch_session.partitions.values()}
            requester, kind = client.requester, ResourceType.TOPIC
            denied = denied_names(self._authorizer, requester, AclOperation.READ, kind, names)
        if fetch_session.routed_at != topics.changes or fetch_session.denied != denied:
            fetch_session.routed_at = topics.changes
            fetch_session.denied = denied
            for cached in fetch_session.partitions.values():
                _find_node(client, fetch_session, cached, anew=False)
        for cached in changed:
            if cached.place in fetch_session.places:  # Not if it is forgotten as well.
                _find_node(client, fetch_session, cached, anew=True)
        sets = fetch_session.sets
        for link in [link for link, fetch_set in sets.items() if not fetch_set.asked]:
            link.end_fetch_set(sets.pop(link))


def _name(topics: InstanceTopics, cached: CachedPartition[NodeLink]) -> str:
    """The name of the partition's topic; of an unknown id an empty one."""
    routes = topics.find(cached.topic, cached.topic_id)
    return cached.topic if routes is None else routes.name


def _find_node(
    client: ClientInfo,
    fetch_session: FetchSession[NodeLink],
    cached: CachedPartition[NodeLink],
    *,
    anew: bool,
) -> None:
    """Puts a partition into the fetch set of its node, or notes why it is in none.

    `anew`: the client asks in another way than before.
    """
    topics = client.topics
    routes = topics.find(cached.topic, cached.topic_id)
    asked = cached.asked
    link: NodeLink | None = None
    if (cached.topic if routes is None else routes.name) in fetch_session.denied:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif routes is None or not 0 <= asked.partition < len(routes.partitions):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        route = routes.partitions[asked.partition]
        link = routes.link_for(asked.partition, client.peer.node, fetch_session.near)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    before, cached.link = cached.link, link
    if before is not None and before is not link:
        fetch_session.sets[before].drop(cached.place)
    if link is None:
        fetch_session.errors[cached.place] = error
        return
    fetch_session.errors.pop(cached.place, None)
    fetch_set = fetch_session.sets.get(link)
    if fetch_set is None:
        fetch_set = fetch_session.sets[link] = FetchSet()
    known = fetch_set.asked.get(cached.place)
    if known is None or anew or known.topic_id != route.topic_id:
        fetch_set.update(
            cached.place,
            FetchPartition(
                route.topic_id,
                asked.partition,
                asked.current_leader_epoch,
                asked.fetch_offset,
                asked.last_fetched_epoch,
                max(0, asked.partition_max_bytes),
            ),
        )
