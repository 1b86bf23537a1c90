"""Sessions of one client, and whether it crawls: pure functions of the times of its requests.

    quiet     -> detected   with the request that makes `requests` within `within_ms`
    detected  -> over       when no request has come for more than `gap_ms`
    quiet     -> over       the same, which nobody hears of

A session that is over is forgotten; the next request begins another one. Times are ms since 1970.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From how many requests within which time on a client is one to keep out, and when it is not."""

    requests: int
    within_ms: int
    gap_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A client's requests without a longer gap between them.

    `recent_ms` has the times of the last `Limits.requests` of them at most, oldest first.
    """

    start_ms: int
    last_ms: int
    requests: int
    recent_ms: tuple[int, ...]
    detected_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """The client was detected, or its session is over, at `at_ms`; `requests` of the session until then."""

    detected: bool
    at_ms: int
    start_ms: int
    requests: int


def observe(
    limits: Limits, session: Session | None, times_ms: Iterable[int]
) -> tuple[Session | None, list[SessionChange]]:
    """Returns the session after these requests, in the order of time, and what happened meanwhile.

    A request from before the last one, which came late, counts at the time of the last one.
    """
    changes: list[SessionChange] = []
    for time_ms in times_ms:
        if session is not None and time_ms > over_ms(limits, session):
            changes += end(limits, session)
            session = None
        session, more = _request(limits, session, time_ms)
        changes += more
    return session, changes


def over_ms(limits: Limits, session: Session) -> int:
    """Returns the last ms at which a request would still be of this session."""
    return session.last_ms + limits.gap_ms


def end(limits: Limits, session: Session) -> list[SessionChange]:
    """Returns what there is to tell when the session is over."""
    if session.detected_ms is None:
        return []
    return [
        SessionChange(
            detected=False,
            at_ms=over_ms(limits, session),
            start_ms=session.start_ms,
            requests=session.requests,
        )
    ]


def _request(
    limits: Limits, session: Session | None, time_ms: int
) -> tuple[Session, list[SessionChange]]:
    if session is None:
        session = Session(start_ms=time_ms, last_ms=time_ms, requests=0, recent_ms=())
    time_ms = max(time_ms, session.last_ms)
    recent_ms = (*session.recent_ms, time_ms)[-limits.requests :]
    session = replace(session, last_ms=time_ms, requests=session.requests + 1, recent_ms=recent_ms)
    full = len(recent_ms) == limits.requests and time_ms - recent_ms[0] <= limits.within_ms
    if not full or session.detected_ms is not None:
        return session, []
    change = SessionChange(
        detected=True, at_ms=time_ms, start_ms=session.start_ms, requests=session.requests
    )
    return replace(session, detected_ms=time_ms), [change]
