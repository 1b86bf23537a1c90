"""The reply to an incremental Fetch of a session (KIP-227): only partitions with news are in it."""

from collections.abc import Iterable

from highwater.gateway.core.empty_fetch import pack_empty_reply
from highwater.gateway.core.fetch_session import FetchSession
from highwater.gateway.core.reply import Part
from highwater.gateway.data_plane.fetch_encoding import (
    encode_parts,
    partition_data,
    settle_refusal,
)
from highwater.gateway.data_plane.fetch_reply import FetchReply
from highwater.gateway.routing.client import ClientSession
from highwater.gateway.routing.current_leader import CurrentLeader
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch as codec


class SessionFetch(FetchReply):
    """A Fetch of a session's partitions, whose places are those in the session."""

    __slots__ = ("_fetch_session",)

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        fetch_session: FetchSession[NodeLink],
    ) -> None:
        super().__init__(session, request_bytes, version, correlation_id)
        self._fetch_session = fetch_session

    def finish(self) -> None:
        """Replies with the results so far; the session may fetch again."""
        self._end()
        super().finish()

    def abandon(self) -> None:
        """The client is gone; the session stays, and its nodes tell everything again."""
        super().abandon()
        self._end_sets()

    def overtaken(self) -> None:
        """See `OngoingFetch`."""
        self._drop()
        self._end_sets()
        self.works = []
        code = int(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.session.shared.meters.fetch.failed(code)
        session_id = self._fetch_session.session_id
        self.session.complete_fetch(
            self, pack_empty_reply(self._version, self._correlation_id, session_id, 0, code)
        )

    def _end_sets(self) -> None:
        self._end()
        for link, work, _ in self.works:
            if work.fetch_set is not None:
                link.end_fetch_set(work.fetch_set)

    def _end(self) -> None:
        if self._fetch_session.reply is self:
            self._fetch_session.reply = None

    def _in_order(self) -> Iterable[int]:
        places = self._fetch_session.places
        return sorted(self._results, key=lambda place: places[place].order)

    def _encode(self, throttle_ms: int) -> bytes | list[Part]:
        fetch_session, session = self._fetch_session, self.session
        results, places = self._results, fetch_session.places
        version, client = self._version, session.client
        may_copy = not session.shared.budget.replies_scarce
        topics: list[codec.FetchResponseFetchableTopicResponse] = []
        leaders: list[CurrentLeader] = []
        of_topic: list[codec.FetchResponsePartitionData] = []
        last = None
        # One node has sent them in order.
        for place in self._in_order() if len(self.works) > 1 else results:
            result, cached = results[place], places[place]
            code = result.error_code
            if not cached.tell(result):
                continue
            current = None
            partition = cached.asked.partition
            if code:
                routes = client.topics.find(cached.topic, cached.topic_id)
                entrance = client.peer.entrance
                current = settle_refusal(version, routes, partition, result, entrance)
                if current is not None:
                    leaders.append(current)
            if result.nbytes:
                fetch_session.sent(cached)
            data = partition_data(partition, result, current, may_copy=may_copy)
            if data.error_code:
                session.shared.meters.fetch.failed(data.error_code)
            if (cached.topic, cached.topic_id) != last:
                last = cached.topic, cached.topic_id
                of_topic = []
                topics.append(codec.FetchResponseFetchableTopicResponse(*last, of_topic))
            of_topic.append(data)
        session_id = fetch_session.session_id
        if not topics:
            return pack_empty_reply(version, self._correlation_id, session_id, throttle_ms)
        return encode_parts(version, self._correlation_id, topics, throttle_ms, leaders, session_id)
