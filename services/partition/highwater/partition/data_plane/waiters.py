"""The waits at a partition: fetches for bytes, acks=all appends for the high watermark.

There is no polling. A waiting fetch counts down its missing bytes, over all its partitions, and is
answered by the append that brings the last of them (Kafka's delayed fetch and produce).
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from highwater.hop.append import OUTCOME_APPENDED, OUTCOME_UNKNOWN, AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.time import Timer
from highwater.partition.core.transactions import Transactions

UNCOMMITTED_MAX: Final = 4096
"""Groups whose sizes are kept separately; above that, the last ones count as one."""

COMMITS_MAX: Final = 16_384
"""acks=all groups that may wait at one partition, about 1 KB each without their records."""


class FetchWait:
    """A fetch that waits at one or more partitions of this node."""

    __slots__ = (
        "finish",
        "finished",
        "look",
        "looks_soon",
        "missing_bytes",
        "places",
        "read_committed",
        "timer",
    )

    def __init__(
        self,
        missing_bytes: int,
        finish: "Callable[[FetchWait], None]",
        look: "Callable[[FetchWait], None]",
        *,
        read_committed: bool = False,
    ) -> None:
        """`finish` answers; `look` is called when more bytes may be readable than are missing.

        `read_committed`: only what is before the last stable offset is readable.
        """
        self.missing_bytes = missing_bytes
        self.finish = finish
        self.look = look
        self.finished = False
        self.looks_soon = False
        self.read_committed = read_committed
        self.places: list[Waiters] = []
        self.timer: Timer | None = None
        """Ends the wait when its time is over."""

    def leave(self) -> None:
        """Stops waiting at every partition; `finish` is not called."""
        self.finished = True
        for place in self.places:
            place.fetches.pop(self, None)
        self.places.clear()

    def high_watermark_moved(self) -> None:
        """It has moved, to where the wait has nothing more to read: nothing that ends a fetch's wait."""

    def wait_on(self, places: "list[Waiters]", missing_bytes: int) -> None:
        """Waits again, after `leave`."""
        self.finished = False
        self.missing_bytes = missing_bytes
        for place in places:
            place.add_fetch(self)


class CommitWait:
    """A group that was appended and is not answered yet.

    Usually it has acks=all, and the high watermark is below its end. Otherwise it waits for a slow
    write, or for a flush.
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
        """`required_offset` is the offset after the group, `nbytes` its bytes added to the log."""
        self.nbytes = nbytes
        self.group = group
        self.base_offsets = base_offsets
        self.failures = failures
        self.required_offset = required_offset

    def give_up(self, failure: Failure) -> None:
        """Answers the group; batches that failed on their own keep their failure."""
        n = len(self.base_offsets)
        failures = {**dict.fromkeys(range(n), failure), **(self.failures or {})}
        self.group.complete([-1] * n, failures)


class Waiters:
    """All waits at one partition."""

    __slots__ = (
        "_last_stable_offset",
        "_reached",
        "_stable",
        "_transactions",
        "commits",
        "fetches",
        "uncommitted",
    )

    def __init__(
        self,
        transactions: Transactions | None = None,
        last_stable_offset: Callable[[], int] = lambda: -1,
    ) -> None:
        """`transactions` are the log's; as long as it never had any, everything that is committed is
        stable.
        """
        self._transactions = Transactions() if transactions is None else transactions
        self._last_stable_offset = last_stable_offset
        self._stable = -1
        """The last stable offset when fetches were last told of new bytes; -1 if never."""
        self._reached = -1
        """The high watermark that `reached` was told last; -1 if none."""
        self.fetches: dict[FetchWait, None] = {}
        self.commits: deque[CommitWait] = deque()
        """In the order of their offsets."""
        self.uncommitted: deque[tuple[int, int]] = deque()
        """(end offset, bytes) of groups that followers do not have yet, in order."""

    def appended(self, end_offset: int, nbytes: int) -> None:
        """The log has grown by an uncommitted group."""
        if len(self.uncommitted) >= UNCOMMITTED_MAX:
            nbytes += self.uncommitted.pop()[1]
        self.uncommitted.append((end_offset, nbytes))

    def reached(self, high_watermark: int) -> None:
        """The high watermark has moved, perhaps past uncommitted groups."""
        uncommitted = self.uncommitted
        nbytes = 0
        while uncommitted and uncommitted[0][0] <= high_watermark:
            nbytes += uncommitted.popleft()[1]
        if self.fetches:
            if nbytes:
                self.bytes_committed(nbytes)
            elif high_watermark > self._reached:  # Into a group, of which the rest is missing.
                for wait in self.fetches:
                    wait.high_watermark_moved()
        self._reached = high_watermark

    def add_fetch(self, wait: FetchWait) -> None:
        """Lets `wait` count new bytes here."""
        self.fetches[wait] = None
        wait.places.append(self)

    def bytes_committed(self, nbytes: int) -> None:
        """Counts `nbytes` newly committed bytes for the waiting fetches.

        If the log has transactions, read_committed fetches look when the last stable offset has
        moved: which bytes that makes readable is not counted.
        """
        transactional = self._transactions.seen
        stable_moved = transactional and self._stable_moved()
        for wait in list(self.fetches):
            if wait.finished:
                continue  # An earlier one's read failed a replica, which ended this wait.
            if transactional and wait.read_committed:
                if stable_moved:
                    wait.look(wait)
                else:
                    wait.high_watermark_moved()
                continue
            wait.missing_bytes -= nbytes
            if wait.missing_bytes <= 0:
                wait.leave()
                wait.finish(wait)

    def _stable_moved(self) -> bool:
        before, self._stable = self._stable, self._last_stable_offset()
        return self._stable > before

    def caught_up(self) -> None:
        """The high watermark has reached the start of this leader's epoch.

        So fetches may return it, and may find records that were here before.
        """
        for wait in list(self.fetches):
            if not wait.finished:
                wait.look(wait)

    def add_commit(self, wait: CommitWait) -> None:
        """Adds a group, last by offset. If too many wait, answers the first as not replicated."""
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
        """Answers all waits: fetches read again and get the error, appends get `error_code`.

        The batches are in this log, but the next leader may or may not have them. So the code must
        not be one that clients take as "not stored" (decision 14).
        """
        self.uncommitted.clear()
        self._stable = self._reached = -1
        for wait in list(self.fetches):
            wait.leave()
            wait.finish(wait)
        gone = Failure(error_code, "the leader changed before the commit", outcome=OUTCOME_UNKNOWN)
        while self.commits:
            self.commits.popleft().give_up(gone)


def _is_late(group: AppendGroup, now_ms: int) -> bool:
    # Groups made by this node have no deadline, which is 0.
    return 0 < group.last_deadline_ms <= now_ms


def _late(error_code: ErrorCode) -> Failure:
    """For records in the leader's log, to be committed later, or truncated by another leader."""
    return Failure(error_code, "followers do not have it in time", outcome=OUTCOME_APPENDED)
