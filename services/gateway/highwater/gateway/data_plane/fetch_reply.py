"""Replies to Fetch requests that wait for nodes: what those of one request and of a session share."""

from collections.abc import Iterable

from highwater.gateway.core.meters import FETCH
from highwater.gateway.core.reply import Part, Reply
from highwater.gateway.routing.client import ClientSession
from highwater.hop.fetch import FetchedPartition, FetchWork
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode

_NOT_AVAILABLE = int(ErrorCode.OFFSET_NOT_AVAILABLE)


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
    """A Fetch in flight: works at one or more nodes, and results by place; subclasses encode them.

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
    ) -> None:
        super().__init__(FETCH, request_bytes, session.arrived_ns)
        self.session = session
        self._version = version
        self._correlation_id = correlation_id
        self._results: dict[int, FetchedPartition] = {}
        self.works: list[tuple[NodeLink, FetchWork, list[int]]] = []
        self._missing = 0
        self._found = False
        self._wait_ms = 0
        self._done = False

    def set_result(self, place: int, result: FetchedPartition) -> None:
        """Sets a result that needs no node."""
        self._results[place] = result

    def start(self, link: NodeLink, work: FetchWork, places: list[int]) -> None:
        """Adds a work, for these places unless it is for a fetch set; `send` sends all works."""
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
        results = self._results
        for _, other, places in self.works:
            if other is work:
                if work.fetch_set is not None:
                    work.fetch_set.taken = not self._done
                    places = list(work.answered)  # noqa: PLW2901 - the set's own.
                for place, result in zip(places, work.results, strict=True):
                    results[place] = result
                    nbytes += result.nbytes
                    # An unavailable offset may become available by the end of the wait.
                    failed = failed or result.error_code not in (0, _NOT_AVAILABLE)
                    failed = failed or result.preferred_replica >= 0
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
        quota = self.session.quota
        if quota is not None:
            nbytes = sum(result.nbytes for result in self._results.values())
            throttle_ms = quota.consumed(nbytes, throttle_ms)
        try:
            self.session.complete_fetch(self, self._encode(throttle_ms))
        except Exception as error:  # noqa: BLE001 - one client's bug, not the node's.
            self.failed(self._results.values(), error)
        # Works refer to this reply; the cycle would keep their records until a garbage collection.
        self.works = []
        self._results = {}
        if throttle_ms:
            self.session.mute(throttle_ms)

    def _keep_to_max_bytes(self, max_bytes: int) -> None:
        """Applies the limit to the whole reply: its first partitions get the bytes."""
        total = 0
        for place in self._in_order():
            result = self._results[place]
            if result.nbytes:
                if total and total + result.nbytes > max_bytes:
                    result.release()
                else:
                    total += result.nbytes

    def abandon(self) -> None:
        """The client is gone: cancels the works and releases their results."""
        if self._done:
            return  # The reply was complete, but too late to be sent.
        self._drop()
        self.session.finished(self.request_bytes)

    def _drop(self) -> None:
        """Cancels the works and releases their results."""
        self._done = True
        for link, work, _ in self.works:
            if not work.results:
                link.cancel_fetch(work)
            for result in work.results:
                result.release()

    def _in_order(self) -> Iterable[int]:
        """The places of the results, as the client wants the partitions served."""
        return sorted(self._results)

    def _encode(self, throttle_ms: int) -> bytes | list[Part]:
        """The whole reply, from the results."""
        raise NotImplementedError
