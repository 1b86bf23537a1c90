"""Meters what limited instances send through this node, and what they may still send.

The data plane looks an instance up once per group of batches and per fetch; without limits the
table is empty and costs only that look-up. Sans-IO: the time comes in as a function.

Bytes that have arrived are appended when the share allows it; until then they wait
(`data_plane.held_appends`). Clients are told how long the instance is over its limit with all that waits, and
their gateways mute their connections that long (KIP-219). A fetch gets at most what the share still
allows; while that is too little, the answer is empty and tells the wait.

Demand is what flows at the share and what waits. A request above the burst is paid off after it has passed:
it counts in each tick in which that happens, and the rest of it as held. What a client was told to wait
for counts as held, too, so that the demand of a busy node is at least twice its share.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import InstanceId
from highwater.model.token_bucket import BURST_S, TokenBucket
from highwater.partition.quota.storage_gate import StorageGate

FETCH_PART_S: Final = BURST_S / 2
"""A fetch waits until this much of its rate is available. With less, the answers to one busy
consumer would become smaller and smaller, down to one batch at a time."""


NO_SHARE_MS_MAX: Final = 1_000

PRODUCE_LEAD_MS: Final = 200
"""So much earlier producers are let on than their requests may pass: these wait here then. If they came just
in time, whatever keeps a client for longer than a burst would be lost to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOfNode:
    """A node's share of one instance's limits, in bytes per second; None is unlimited.

    Storage is that of the whole instance, in bytes.
    """

    instance: InstanceId
    produce: float | None
    consume: float | None
    produce_floor: float = 0
    consume_floor: float = 0
    storage_limit: int | None = None
    storage_left: int | None = None
    """None: not known now."""
    storage_exhausted: bool = False

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to meter."""
        return (self.produce, self.consume, self.storage_limit) != (None, None, None)


@dataclass(slots=True, kw_only=True)
class Usage:
    """Bytes since the last report, as `InstanceMeter.take_usage` gives them."""

    produced: int = 0
    consumed: int = 0
    held_produce: int = 0
    held_consume: int = 0
    produce_rate: float | None = None
    """The share in effect at the end."""
    consume_rate: float | None = None
    storage_exhausted: bool = False


class InstanceMeter:
    """Meters one limited instance on this node."""

    __slots__ = (
        "_consume",
        "_consume_excess",
        "_instance",
        "_now_ms",
        "_produce",
        "_produce_excess",
        "held_bytes",
        "on_share",
        "storage",
        "usage",
    )

    def __init__(self, instance: InstanceId, now_ms: Callable[[], int]) -> None:
        self._instance = instance
        self._now_ms = now_ms
        self.storage: Final = StorageGate()
        self._produce = TokenBucket(now_ms=now_ms())
        self._consume = TokenBucket(now_ms=now_ms())
        self._produce_excess = self._consume_excess = 0
        """What waited to be paid off at the last report."""
        self.usage = Usage()
        self.held_bytes = 0
        """Of groups that wait to be appended; whoever holds them counts them."""
        self.on_share: Callable[[], None] | None = None
        """Called when a share has come."""

    def now_ms(self) -> int:
        """The meter's clock."""
        return self._now_ms()

    def refuses_produce(self) -> str:
        """Why nothing may be appended: the instance is at its storage limit. Empty if it may."""
        return self.storage.message(self._instance) if self.storage.closed else ""

    def produce_hold_ms(self, nbytes: int) -> int:
        """For how many ms bytes that have arrived may not be appended; 0 if they may pass."""
        return _hold_ms(self._produce, self._now_ms(), nbytes)

    def produced(self, nbytes: int) -> int:
        """Charges bytes that pass; returns for how many ms the sender is over quota."""
        self.storage.charge(nbytes)
        now_ms = self._now_ms()
        self._produce.charge(now_ms, nbytes)
        usage = self.usage
        usage.produced += nbytes
        over_ms = self._over_ms(now_ms)
        if over_ms:
            usage.held_produce += nbytes
        return _told_ms(over_ms)

    def refused(self, nbytes: int) -> int:
        """Notes bytes that had to wait for too long; returns for how many ms not to send them again."""
        self.usage.held_produce += nbytes
        return _told_ms(self._over_ms(self._now_ms()))

    def _over_ms(self, now_ms: int) -> int:
        """Until what has passed is paid off, and what waits can have passed."""
        return _hold_ms(self._produce, now_ms, 0, behind=self.held_bytes)

    def fetch_hold_ms(self) -> int:
        """For how many ms nothing may be fetched; 0 if a fetch may go on."""
        bucket = self._consume
        now_ms = self._now_ms()
        rate = bucket.rate(now_ms)
        if rate is None:
            return 0
        if rate == 0 and not self.usage.held_consume:
            # A follower that consumers read from has no share until a report says that somebody waits.
            self.usage.held_consume = 1
        return _hold_ms(bucket, now_ms, int(rate * FETCH_PART_S))

    def fetch_bytes_max(self, asked: int) -> int:
        """How many bytes a fetch may return; at least one, so that one batch can pass."""
        available = self._consume.available_bytes(self._now_ms())
        return asked if available is None else min(asked, max(1, available))

    def consumed(self, nbytes: int) -> int:
        """Charges bytes that are sent; returns for how many ms the next fetch is held."""
        self._consume.charge(self._now_ms(), nbytes)
        self.usage.consumed += nbytes
        throttle_ms = self.fetch_hold_ms()
        if throttle_ms:
            self.usage.held_consume += nbytes
        return throttle_ms

    def take(self, share: ShareOfNode, expires_in_ms: int) -> None:
        """Applies a new share from now on; debts stay."""
        now_ms = self._now_ms()
        _lease(self._produce, now_ms, share.produce, share.produce_floor, expires_in_ms)
        _lease(self._consume, now_ms, share.consume, share.consume_floor, expires_in_ms)
        self.storage.take(
            share.storage_limit, share.storage_left, exhausted=share.storage_exhausted
        )
        if self.on_share is not None:
            self.on_share()

    def take_usage(self) -> Usage:
        """What was used since the last call, for a report that is made now."""
        used, self.usage = self.usage, Usage()
        now_ms = self._now_ms()
        used.produce_rate, used.consume_rate = (
            self._produce.rate(now_ms),
            self._consume.rate(now_ms),
        )
        before, self._produce_excess = self._produce_excess, self._produce.excess_bytes(now_ms)
        used.produced = max(0, used.produced + before - self._produce_excess)
        used.held_produce = max(used.held_produce, self._produce_excess) + self.held_bytes
        before, self._consume_excess = self._consume_excess, self._consume.excess_bytes(now_ms)
        used.consumed = max(0, used.consumed + before - self._consume_excess)
        used.held_consume = max(used.held_consume, self._consume_excess)
        used.storage_exhausted = self.storage.closed
        self.storage.reported()
        return used


class NodeMeters:
    """The meters of all limited instances. Used on the node's loop."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._meters: dict[InstanceId, InstanceMeter] = {}

    @property
    def by_instance(self) -> Mapping[InstanceId, InstanceMeter]:
        """The live table, for the data plane; the object stays the same."""
        return self._meters

    def take(self, shares: Iterable[ShareOfNode], expires_in_ms: int) -> None:
        """Applies new shares; an instance without a share becomes unlimited."""
        listed = set()
        for share in shares:
            if not share.is_limited:
                continue
            listed.add(share.instance)
            meter = self._meters.get(share.instance)
            if meter is None:
                meter = self._meters[share.instance] = InstanceMeter(share.instance, self._now_ms)
            meter.take(share, expires_in_ms)
        for instance in [known for known in self._meters if known not in listed]:
            # What waits goes before what comes afterwards, and is not metered.
            unlimited = ShareOfNode(instance=instance, produce=None, consume=None)
            self._meters[instance].take(unlimited, expires_in_ms)
            del self._meters[instance]

    def take_usage(self) -> dict[InstanceId, Usage]:
        """What limited instances have used since the last call."""
        return {instance: meter.take_usage() for instance, meter in self._meters.items()}


def _hold_ms(bucket: TokenBucket, now_ms: int, nbytes: int, behind: int = 0) -> int:
    """The bucket's hold time, but only one tick without any share: an instance's first leader
    here has no share until the quota service knows of it.
    """
    hold_ms = bucket.hold_ms(now_ms, nbytes, behind=behind)
    if hold_ms > NO_SHARE_MS_MAX and bucket.rate(now_ms) == 0:
        return NO_SHARE_MS_MAX
    return hold_ms


def _told_ms(over_ms: int) -> int:
    """For how long a producer is held that is over for so long; at least 1, so that it knows."""
    return max(1, over_ms - PRODUCE_LEAD_MS) if over_ms else 0


def _lease(
    bucket: TokenBucket, now_ms: int, rate: float | None, floor: float, expires_in_ms: int
) -> None:
    if rate is None:
        bucket.set_rate(now_ms, None)
    else:
        bucket.set_lease(now_ms, rate=rate, floor=floor, expires_in_ms=expires_in_ms)
