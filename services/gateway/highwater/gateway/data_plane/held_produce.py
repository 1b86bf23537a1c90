"""Produce while leaders move: connects routes, links and the holds of partitions (decision 14).

A partition has a `PartitionHold` only in unusual states: its route is new and its leader has not
accepted anything yet, a group was refused, or it has no leader. Otherwise batches go straight to
the link. `HeldProduce` owns all groups of the links, so it gets their results first. If nothing is
unusual and nothing has failed, it passes them to the sinks at once. When needed, it finds the
groups in flight in the link.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, cast

from highwater.gateway.core.produce_hold import HoldLedger, PartitionHold, refusal_of, tell_all
from highwater.gateway.routing.table import PartitionRoute
from highwater.hop.append import (
    OUTCOME_UNKNOWN,
    AppendGroup,
    AppendRoute,
    AppendSink,
    Batch,
    Failure,
    TransactionalWrite,
    tell_sinks,
)
from highwater.hop.append_expiry import unknown
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId

ANSWER_EARLY_MS: Final = 500
"""Held batches are answered this long before their deadline.

That is more than the time between two checks, so never too late. And clients that give up a request
exactly at its timeout (the Java one) still learn that nothing was stored.
"""

RETRY_S: Final = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Pauses before a leader that did not know of its election is tried again; later, `expire` does it.

Mostly, images reach a gateway and a node within milliseconds of one another.
"""

Key = tuple[TopicId, int]
Move = tuple[NodeLink | None, PartitionRoute]
"""The former link of a partition, and its new route."""


class RecallableLink(NodeLink, Protocol):
    """A link that lists its groups of appends, and gives them back."""

    def append_group(self, route: AppendRoute, group: AppendGroup) -> None:
        """Queues a whole group behind all earlier ones."""
        ...

    def appends_under_way(self) -> Iterator[AppendGroup]:
        """Groups without a result, in order."""
        ...

    def recall_appends(self, wanted: Callable[[AppendGroup], bool]) -> list[AppendGroup]:
        """Takes groups out, in order; results of groups that were sent are ignored from now on."""
        ...


class _Held:
    """One partition: `link` has its groups in flight; `retries` counts those of this leader."""

    __slots__ = ("hold", "link", "retries", "route")

    def __init__(
        self, hold: PartitionHold, route: PartitionRoute, link: RecallableLink | None
    ) -> None:
        self.hold = hold
        self.route = route
        self.link = link
        self.retries = 0


class HeldProduce:
    """See the module. As a `ProduceTarget`, it takes batches that may not go to a link yet; as an
    `AppendOwner`, it gets the results of those that did.
    """

    def __init__(
        self,
        bytes_max: int,
        *,
        route_of: Callable[[TopicId, int], PartitionRoute | None],
        is_lost: Callable[[NodeLink], bool],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`route_of` gives None for partitions that are not in the image (any more).

        `is_lost(link)` is True if groups that were sent need not be waited for.
        """
        self._call_later = call_later
        self._ledger = HoldLedger(bytes_max)
        self._route_of = route_of
        self._is_lost = is_lost
        self._held: dict[Key, _Held] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of batches that are held now."""
        return self._ledger.nbytes

    @property
    def partitions(self) -> int:
        """The number of partitions that have a hold."""
        return len(self._held)

    # ---- batches and groups ----

    def append(
        self,
        route: AppendRoute,
        acks: int,
        batch: Batch,
        nbytes: int,
        sink: AppendSink,
        index: int,
        deadline_ms: int,
        transaction: TransactionalWrite | None = None,
    ) -> None:
        """Takes one batch of a partition whose route has this target."""
        key = (route.topic_id, route.partition)
        held = self._held.get(key)
        if held is None:
            # Only a `PartitionRoute` can have this object as its target.
            found = cast("PartitionRoute", route)
            held = self._begin(found, _recallable(found.link), trusted=False)
        held.hold.append(acks, batch, nbytes, sink, index, deadline_ms, transaction)
        self._go_on(held)

    def take_result(
        self, group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure] | None
    ) -> bool:
        """See `AppendOwner`. Without any hold, this class leaves a success to the group."""
        if failures is None and not self._held:
            return False
        key = (group.topic_id, group.partition)
        held = self._held.get(key)
        if held is not None:
            self._take_counted(held, group, base_offsets, failures)
        elif failures is None:
            return False
        elif refusal_of(group, failures) is None:
            _tell(group, base_offsets, failures)
        elif (route := self._route_of(*key)) is None:
            tell_all(group, _UNKNOWN_TOPIC)
        else:
            link = _recallable(route.link)
            held = self._begin(route, link)
            for other in () if link is None else link.appends_under_way():
                if (other.topic_id, other.partition) == key:
                    held.hold.sent(other)
            held.hold.sent(group)
            self._take_counted(held, group, base_offsets, failures)
        return True

    def _begin(
        self, route: PartitionRoute, link: RecallableLink | None, *, trusted: bool = True
    ) -> _Held:
        """Makes a hold for a partition that has none."""
        hold = PartitionHold(route, self._ledger, owner=self, led=link is not None, trusted=trusted)
        held = self._held[route.topic_id, route.partition] = _Held(hold, route, link)
        return held

    def _take_counted(
        self,
        held: _Held,
        group: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> None:
        """Takes the result of a group whose partition has a hold, which counts groups in flight."""
        if not held.hold.completed(group, failures):
            _tell(group, base_offsets, failures or {})
            if failures:
                held.hold.answered(group, failures)
        self._go_on(held)
        if held.hold.may_retry and held.retries < len(RETRY_S):
            self._call_later(RETRY_S[held.retries], partial(self._retry, held))
            held.retries += 1

    def _opened(self, group: AppendGroup) -> None:
        """A group was opened at the link of a partition that has a hold."""
        self._held[group.topic_id, group.partition].hold.sent(group)

    def _retry(self, held: _Held) -> None:
        if self._held.get((held.route.topic_id, held.route.partition)) is held:
            self._go_on(held, retry=True)

    def _go_on(self, held: _Held, *, retry: bool = False) -> None:
        """Sends the groups that may leave, and sets where the next batches go."""
        hold, route = held.hold, held.route
        link = _recallable(route.link)
        groups = hold.take(retry=retry)
        for group in groups:
            assert link is not None  # Otherwise `take` gives no groups.
            link.append_group(route, group)
        straight = hold.straight
        if groups or straight:
            held.link = link
        route.target = link if straight else self
        route.on_open = self._opened if straight else None
        if hold.over:
            route.on_open = None
            key = (route.topic_id, route.partition)
            if self._held.get(key) is held:
                del self._held[key]

    # ---- events ----

    def follow(self, moves: Sequence[Move], gone: Iterable[TopicId]) -> None:
        """Applies a new image: changed routes, and deleted topics."""
        self._forget_topics(set(gone))
        routes = {(route.topic_id, route.partition): route for _, route in moves}
        known = set(self._held)
        # A dict, because it keeps the order.
        for link in dict.fromkeys(_recallable(old) for old, _ in moves):
            for group in () if link is None else link.appends_under_way():
                key = (group.topic_id, group.partition)
                if key not in routes or key in known:
                    continue
                if key not in self._held:
                    self._begin(routes[key], link)
                self._held[key].hold.sent(group)
        moved = [held for key in routes if (held := self._held.get(key)) is not None]
        for held in moved:
            route = held.route = routes[held.route.topic_id, held.route.partition]
            held.retries = 0
            held.hold.moved(route.leader_epoch, led=route.link is not None)
        self._recall_lost()
        for held in moved:
            self._go_on(held)

    def expire(self, now_ms: int) -> None:
        """Answers batches that waited too long and retries leaders; called a few times a second."""
        self._recall_lost()
        for held in list(self._held.values()):
            held.hold.expire(now_ms + ANSWER_EARLY_MS)
            self._go_on(held, retry=True)

    def close(self) -> None:
        """Answers all held batches, and from now on each new one at once."""
        self._ledger.bytes_max = -1
        for held in list(self._held.values()):
            held.hold.give_up("the gateway stops")

    def _forget_topics(self, gone: set[TopicId]) -> None:
        if not gone:
            return
        for key in [key for key in self._held if key[0] in gone]:
            self._held.pop(key).hold.fail(_UNKNOWN_TOPIC)

    def _recall_lost(self) -> None:
        """Takes groups back from earlier leaders that will not answer."""
        lost: dict[RecallableLink, set[Key]] = {}
        for key, held in self._held.items():
            if held.link is not None and held.hold.waits_for_earlier and self._is_lost(held.link):
                lost.setdefault(held.link, set()).add(key)
        for link, keys in lost.items():
            wanted = partial(_is_of, keys)
            for group in link.recall_appends(wanted):
                self._held[group.topic_id, group.partition].hold.recalled(group)


_UNKNOWN_TOPIC: Final = Failure(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted while its leader was awaited"
)


def _is_of(keys: set[Key], group: AppendGroup) -> bool:
    return (group.topic_id, group.partition) in keys


def _tell(group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure]) -> None:
    """Gives its results to the sinks of a group that is not held."""
    if group.doubtful:
        failures = {place: _doubted(failure) for place, failure in failures.items()}
    tell_sinks(group, base_offsets, failures)


def _doubted(failure: Failure) -> Failure:
    """The failure as unknown: an earlier attempt may be in the log, even if this one is not."""
    if failure.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return unknown(failure.message)
    if failure.error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
        after = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return Failure(after, failure.message, outcome=OUTCOME_UNKNOWN)
    return failure


def _recallable(link: NodeLink | None) -> RecallableLink | None:
    """The link as recallable: produce is only held in clusters, where every link is."""
    return cast("RecallableLink | None", link)
