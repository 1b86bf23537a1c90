"""Who waits for a partition: fetches for bytes, acks=all appends for the high watermark.

Nobody polls. A waiting fetch counts down the bytes that still miss, over all its partitions, and
is answered by the append that brings the last of them (Kafka's delayed fetch and produce).
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from highwater.hop.append import OUTCOME_APPENDED, OUTCOME_UNKNOWN, AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode

UNCOMMITTED_MAX: Final = 4096
"""Groups whose sizes are kept apart; beyond that, the last ones count as one."""

COMMITS_MAX: Final = 16_384
"""acks=all groups that may wait at one partition, about 1 KB each without their records."""


class FetchWait:
    """A fetch that waits at one or more partitions of this node."""

    __slots__ = ("finish", "finished", "look", "looks_soon", "missing_bytes", "places", "timer")

    def __init__(
        self,
        missing_bytes: int,
        finish: "Callable[[FetchWait], None]",
        look: "Callable[[FetchWait], None]",
    ) -> None:
        """`finish` answers; `look` says that it may find more than the bytes that still miss."""
        self.missing_bytes = missing_bytes
        self.finish = finish
        self.look = look
        self.finished = False
        self.looks_soon = False
        self.places: list[Waiters] = []
        self.timer: Any = None
        """Whatever `call_later` gave; it can be cancelled."""

    def leave(self) -> None:
        """Stops waiting at every partition; `finish` is not called."""
        self.finished = True
        for place in self.places:
            place.fetches.pop(self, None)
        self.places.clear()

    def wait_on(self, places: "list[Waiters]", missing_bytes: int) -> None:
        """Waits again, after it has left."""
        self.finished = False
        self.missing_bytes = missing_bytes
        for place in places:
            place.add_fetch(self)


class CommitWait:
    """A group that was appended and is not answered yet.

    As a rule it has acks=all, and its last offset is not yet below the high watermark; or it waits
    for a slow write, or for a flush.
    """

    __slots__ = ("base_offsets", "failures", "group", "nbytes", "required_offset")

    def __init__(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: dict[int, Failure] | None,
        required_offset: int,
        nbytes: int = 0,
    ) -> None:
        """`required_offset` is the one after the group, `nbytes` what it added to the log."""
        self.nbytes = nbytes
        self.group = group
        self.base_offsets = base_offsets
        self.failures = failures
        self.required_offset = required_offset

    def give_up(self, failure: Failure) -> None:
        """Answers the group; batches that failed by themselves keep their own failure."""
        n = len(self.base_offsets)
        failures = {**dict.fromkeys(range(n), failure), **(self.failures or {})}
        self.group.complete([-1] * n, failures)


class Waiters:
    """Both kinds of waiting at one partition."""

    __slots__ = ("commits", "fetches", "uncommitted")

    def __init__(self) -> None:
        self.fetches: dict[FetchWait, None] = {}
        self.commits: deque[CommitWait] = deque()
        """In the order of their offsets."""
        self.uncommitted: deque[tuple[int, int]] = deque()
        """(end offset, bytes) of groups that followers do not have yet, in order."""

    def appended(self, end_offset: int, nbytes: int) -> None:
        """The log has grown by a group that is not committed."""
        if len(self.uncommitted) >= UNCOMMITTED_MAX:
            nbytes += self.uncommitted.pop()[1]
        self.uncommitted.append((end_offset, nbytes))

    def reached(self, high_watermark: int) -> None:
        """The high watermark has moved over groups that waited for it."""
        uncommitted = self.uncommitted
        nbytes = 0
        while uncommitted and uncommitted[0][0] <= high_watermark:
            nbytes += uncommitted.popleft()[1]
        if nbytes and self.fetches:
            self.bytes_committed(nbytes)

    def add_fetch(self, wait: FetchWait) -> None:
        """Lets `wait` hear of new bytes here."""
        self.fetches[wait] = None
        wait.places.append(self)

    def bytes_committed(self, nbytes: int) -> None:
        """Tells fetches that the high watermark moved over `nbytes` more bytes."""
        for wait in list(self.fetches):
            if wait.finished:
                continue  # By one before it, whose read has taken a replica down.
            wait.missing_bytes -= nbytes
            if wait.missing_bytes <= 0:
                wait.leave()
                wait.finish(wait)

    def caught_up(self) -> None:
        """The high watermark has reached where this leader's epoch begins.

        So fetches may tell it, and find records that were here before.
        """
        for wait in list(self.fetches):
            if not wait.finished:
                wait.look(wait)

    def add_commit(self, wait: CommitWait) -> None:
        """The last in the order of offsets. Where too many wait, the first is not waited for."""
        if len(self.commits) >= COMMITS_MAX:
            self.commits.popleft().give_up(_late(ErrorCode.REQUEST_TIMED_OUT))
        self.commits.append(wait)

    def expire_commits(self, now_ms: int, error_code: ErrorCode) -> None:
        """Answers groups whose deadline has passed (Kafka's `DelayedProduce.onExpiration`)."""
        late = [wait for wait in self.commits if _is_late(wait.group, now_ms)]
        if late:
            gone = set(late)
            self.commits = deque(wait for wait in self.commits if wait not in gone)
            for wait in late:
                wait.give_up(_late(error_code))

    def offset_committed(self, high_watermark: int) -> None:
        """Completes the acks=all groups that the high watermark has passed."""
        commits = self.commits
        while commits and commits[0].required_offset <= high_watermark:
            done = commits.popleft()
            done.group.complete(done.base_offsets, done.failures)

    def leader_gone(self, error_code: int) -> None:
        """Answers all: fetches read again and see the error, appends get `error_code`.

        The batches are in this log, but nobody knows whether the next leader has them; so the
        code must not be one that clients take as "not stored" (decision 14).
        """
        self.uncommitted.clear()
        for wait in list(self.fetches):
            wait.leave()
            wait.finish(wait)
        gone = Failure(error_code, "the leader changed before the commit", outcome=OUTCOME_UNKNOWN)
        while self.commits:
            self.commits.popleft().give_up(gone)


def _is_late(group: AppendGroup, now_ms: int) -> bool:
    # Groups of this node's own have no deadline, which is 0.
    return 0 < group.last_deadline_ms <= now_ms


def _late(error_code: ErrorCode) -> Failure:
    """For records that are in the leader's log and will be committed, or cut off by another."""
    return Failure(error_code, "followers do not have it in time", outcome=OUTCOME_APPENDED)
