"""Sessions of nodes and gateways: heartbeats and open watch streams show which ones are alive.

A session ends after `session_timeout_ms` without a heartbeat, or `stream_grace_ms` after its last
watch stream closed, because the system closes the streams of a process that dies. A new stream
proves that the process lives, and so does a heartbeat some time after the close. A heartbeat right
after the close proves nothing: it came by another connection and may have been sent before. Times
are milliseconds of a monotonic clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

K = TypeVar("K")

LATE_PARTS: Final = 5
"""Heartbeats prove nothing in the first fifth of the grace: 100 ms by default, longer than a busy
controller leaves a heartbeat unread."""

UNSEEN_PARTS: Final = 3
"""A member without a stream is unseen after a third of its session without a heartbeat: 2 s by
default, two heartbeats."""


@dataclass(slots=True, kw_only=True)
class Session:
    """One member's session. `epoch` distinguishes a node's incarnations; gateways have 0."""

    epoch: int
    heard_ms: int
    applied_revision: int = 0
    reported_ms: int | None = None
    """When the last heartbeat came; None before the first. Unlike `heard_ms` never moved."""
    caught_up_ms: int | None = None
    """When the last heartbeat came that told the newest revision of that time."""
    closed_ms: int | None = None
    """When the last stream closed, None while one is open or before the first."""
    confirmed: bool = True
    """False for members that a new controller knows only from the store."""


class SessionTable(Generic[K]):
    """The active controller's view of its members. Owned by one loop, never blocks."""

    def __init__(self, *, session_timeout_ms: int, stream_grace_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._grace_ms = stream_grace_ms
        self._late_ms = stream_grace_ms // LATE_PARTS
        self._silence_ms = session_timeout_ms // UNSEEN_PARTS
        self._sessions: dict[K, Session] = {}
        self._streams: dict[tuple[K, int], int] = {}
        """Open watch streams by member and epoch. They outlive sessions: after a long hang, a
        process comes back with the same stream."""

    def __len__(self) -> int:
        """The number of members, including those with expired sessions that were not removed."""
        return len(self._sessions)

    @property
    def sessions(self) -> Mapping[K, Session]:
        """All sessions, including expired ones that were not removed."""
        return MappingProxyType(self._sessions)

    def get(self, member: K) -> Session | None:
        """The member's session, or None."""
        return self._sessions.get(member)

    def open(self, member: K, *, epoch: int, now_ms: int, confirmed: bool = True) -> None:
        """Starts a full session, replacing the member's former one.

        Open streams of the same incarnation count for the new session, too.
        """
        former = self._sessions.get(member)
        session = Session(epoch=epoch, heard_ms=now_ms, confirmed=confirmed)
        if former is not None and former.epoch == epoch:
            session.applied_revision = former.applied_revision
            session.reported_ms = former.reported_ms
            session.caught_up_ms = former.caught_up_ms
        self._sessions[member] = session

    def heard(self, member: K, *, now_ms: int, applied_revision: int) -> None:
        """Takes a heartbeat of a member that has a session."""
        session = self._sessions[member]
        session.heard_ms = session.reported_ms = now_ms
        session.applied_revision = max(session.applied_revision, applied_revision)
        if session.closed_ms is not None and (
            not session.confirmed or now_ms - session.closed_ms >= self._late_ms
        ):
            session.closed_ms = None  # The first heartbeat shows that `ended_unseen` was wrong.
        session.confirmed = True

    def caught_up(self, member: K, *, now_ms: int) -> None:
        """Notes that the heartbeat that was just heard told the newest revision."""
        self._sessions[member].caught_up_ms = now_ms

    def streams(self, member: K, epoch: int) -> int:
        """How many watch streams of an incarnation are open."""
        return self._streams.get((member, epoch), 0)

    def stream_opened(self, member: K, *, epoch: int) -> bool:
        """Counts a watch stream; False if it belongs to another incarnation."""
        session = self._sessions.get(member)
        if session is not None:
            if session.epoch != epoch:
                return False
            session.closed_ms = None
            session.confirmed = True
        self._streams[member, epoch] = self._streams.get((member, epoch), 0) + 1
        return True

    def stream_closed(self, member: K, *, epoch: int, now_ms: int) -> None:
        """Uncounts a stream; the stream of a former incarnation ends no session."""
        left = self._streams.pop((member, epoch)) - 1
        if left:
            self._streams[member, epoch] = left
            return
        session = self._sessions.get(member)
        if session is not None and session.epoch == epoch:
            session.closed_ms = now_ms

    def unseen(self, now_ms: int) -> list[K]:
        """Members without a stream that are silent: no stream's end would show their death.

        Members that only the store knows count at once, others after a while: a member may send its
        first heartbeat and die before it opens its stream.
        """
        return [m for m, s in self._sessions.items() if self._is_unseen(m, s, now_ms)]

    def ended_unseen(self, member: K, *, epoch: int, now_ms: int) -> bool:
        """Notes that an unseen member's process has ended; False if the member called meanwhile.

        The member has the grace period of a closed stream to show that this is wrong.
        """
        session = self._sessions.get(member)
        if session is None or session.epoch != epoch:
            return False
        if not self._is_unseen(member, session, now_ms):
            return False
        session.closed_ms = now_ms
        return True

    def end(self, member: K) -> None:
        """Forgets the member; harmless if it has no session."""
        self._sessions.pop(member, None)

    def is_live(self, member: K, now_ms: int) -> bool:
        """True while the member's session lasts."""
        session = self._sessions.get(member)
        return session is not None and now_ms < self._deadline_ms(session)

    def may_be_replaced(self, member: K, now_ms: int, *, by_successor: bool) -> bool:
        """True if another incarnation may take the id: the session has ended.

        A successor has the former incarnation's address or directories, so the former one cannot
        live. The successor may replace it as soon as its stream has closed, or if a new controller
        has not heard from it. For any other incarnation, a closed stream may belong to a live
        member that is about to open another stream.
        """
        if not self.is_live(member, now_ms):
            return True
        session = self._sessions[member]
        return by_successor and (session.closed_ms is not None or not session.confirmed)

    def expired(self, now_ms: int) -> list[K]:
        """Members whose sessions have run out and were not ended yet."""
        return [m for m, s in self._sessions.items() if now_ms >= self._deadline_ms(s)]

    def next_deadline_ms(self) -> int | None:
        """When the first session runs out without another heartbeat; None without sessions."""
        return min((self._deadline_ms(s) for s in self._sessions.values()), default=None)

    def forgive(self, stalled_ms: int) -> None:
        """Extends all sessions by the time that the controller itself did not run."""
        for session in self._sessions.values():
            session.heard_ms += stalled_ms
            if session.closed_ms is not None:
                session.closed_ms += stalled_ms

    def behind(self, revision: int) -> list[K]:
        """Members that have not applied the revision yet."""
        return [m for m, s in self._sessions.items() if s.applied_revision < revision]

    def _is_unseen(self, member: K, session: Session, now_ms: int) -> bool:
        if session.closed_ms is not None or self.streams(member, session.epoch):
            return False
        return not session.confirmed or now_ms - session.heard_ms >= self._silence_ms

    def _deadline_ms(self, session: Session) -> int:
        deadline = session.heard_ms + self._timeout_ms
        if session.closed_ms is not None:
            deadline = min(deadline, session.closed_ms + self._grace_ms)
        return deadline
