"""How far each follower has fetched, as the leader knows it (Kafka's `Replica.updateFetchStateOrThrow`).

Hot path: plain slots, changed in place by each fetch.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

UNKNOWN: Final = -1
NEVER_MS: Final = -(1 << 62)


class FollowerProgress:
    """One follower in one term of leadership. Starts afresh with each leader epoch."""

    __slots__ = (
        "caught_up_ms",
        "fetched_ms",
        "in_maximal_isr",
        "kept_log_start",
        "leader_end_at_fetch",
        "log_end_offset",
        "near",
        "node",
        "node_epoch",
    )

    def __init__(self, node: int) -> None:
        self.node = node
        self.node_epoch = UNKNOWN
        """The node epoch of its last fetch (KIP-903)."""
        self.log_end_offset = UNKNOWN
        """The offset of its last fetch, which acknowledges everything before it."""
        self.kept_log_start = UNKNOWN
        """Where its log begins, after a crash, too; it says so with each fetch."""
        self.caught_up_ms = NEVER_MS
        """When it last had all that the leader had."""
        self.fetched_ms = NEVER_MS
        self.leader_end_at_fetch = 0
        self.in_maximal_isr = False
        self.near = False
        """Outside the maximal ISR, yet caught up recently: the high watermark waits for it."""

    def begin_term(self, now_ms: int, *, in_sync: bool) -> None:
        """A new leader knows nothing yet; members of the ISR get the whole lag time."""
        self.node_epoch = UNKNOWN
        self.log_end_offset = self.kept_log_start = UNKNOWN
        self.fetched_ms = NEVER_MS
        self.caught_up_ms = now_ms if in_sync else NEVER_MS
        self.leader_end_at_fetch = 0
        self.in_maximal_isr = in_sync
        self.near = False

    def leave_isr(self) -> None:
        """It has left the ISR, or may not join: its log may have failed since, and begun anew.

        So only what it fetches from now on counts.
        """
        self.log_end_offset = self.kept_log_start = UNKNOWN
        self.caught_up_ms = NEVER_MS
        self.leader_end_at_fetch = 0

    def admit(self, node_epoch: int) -> bool:
        """False for a fetch of a former incarnation; a new one begins with nothing known."""
        if node_epoch == self.node_epoch:
            return True
        if node_epoch < self.node_epoch:
            return False
        self.node_epoch = node_epoch
        self.log_end_offset = self.kept_log_start = UNKNOWN
        self.leader_end_at_fetch = 0
        self.near = False
        return True

    def keeps(self, log_start_offset: int) -> None:
        """It has said where its log begins, after a crash, too."""
        self.kept_log_start = log_start_offset

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """It has everything before `offset`.

        A follower that has all that the leader had at the fetch before was caught up at that time.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch and self.log_end_offset != UNKNOWN:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = leader_end

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        """False if it has been behind for longer than replica.lag.time.max.ms."""
        return self.log_end_offset >= leader_end or now_ms - self.caught_up_ms <= lag_ms_max


def begin_terms(
    progress: Iterable[FollowerProgress], maximal: Collection[int], now_ms: int
) -> None:
    """A new leader's first look at its followers."""
    for follower in progress:
        follower.begin_term(now_ms, in_sync=follower.node in maximal)


def mark_maximal(progress: Iterable[FollowerProgress], maximal: Collection[int]) -> None:
    """After the maximal ISR has changed: the hot path looks at marks, not at sets."""
    for follower in progress:
        follower.in_maximal_isr = follower.node in maximal
        follower.near = follower.near and not follower.in_maximal_isr


def exclude(progress: Iterable[FollowerProgress], nodes: Collection[int]) -> None:
    """The high watermark does not wait for nodes that may not join."""
    for follower in progress:
        follower.near = follower.near and follower.node not in nodes


def lagging(
    progress: Iterable[FollowerProgress],
    joinable: Callable[[FollowerProgress], bool],
    leader_end: int,
    now_ms: int,
    lag_ms_max: int,
) -> set[int]:
    """The nodes that have fallen behind; the high watermark waits for `joinable` ones that have not."""
    behind = set()
    for follower in progress:
        caught_up = follower.is_caught_up(leader_end, now_ms, lag_ms_max)
        if not caught_up:
            behind.add(follower.node)
        follower.near = caught_up and joinable(follower)
    return behind


def leave_isr(
    progress: Iterable[FollowerProgress], before: Collection[int], maximal: Collection[int]
) -> None:
    """Followers that were in the ISR `before` and are not in the maximal one begin anew."""
    for follower in progress:
        if follower.node in before and follower.node not in maximal:
            follower.leave_isr()


def low_watermark(
    progress: Iterable[FollowerProgress], ineligible: Collection[int], own: int
) -> int:
    """The smallest log start that is on disk, over the leader, whose is `own`, and the followers that
    live or are in the ISR (Kafka's `Partition.lowWatermarkIfLeader`); -1 if one has said nothing.
    """
    lowest = own
    for follower in progress:
        if follower.kept_log_start < lowest and (
            follower.in_maximal_isr or follower.node not in ineligible
        ):
            lowest = follower.kept_log_start
    return lowest


def node_epochs(
    known: Mapping[int, FollowerProgress], isr: Iterable[int], leader_node_epoch: int
) -> tuple[int, ...]:
    """Parallel to `isr`: the node epochs under which they fetched (KIP-903), and the leader's own."""
    return tuple(known[n].node_epoch if n in known else leader_node_epoch for n in isr)


def tracked(
    known: Mapping[int, FollowerProgress], replicas: Iterable[int], leader: int
) -> dict[int, FollowerProgress]:
    """The followers of a leader; those that were `known` keep their progress."""
    return {n: known.get(n) or FollowerProgress(n) for n in replicas if n != leader}
