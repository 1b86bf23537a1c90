"""Nodes that lose the quota service lose it at different moments, and together keep to the limit."""

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from highwater.model.token_bucket import BURST_S, TokenBucket
from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.port import Demand, Sharing
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.core.policies.waterfill import WaterfillPolicy
from highwater.quota.core.usage import InstanceUsage, NodeUsage
from highwater.quota.rpc.quota_servicer import SILENCE_TICKS_MAX
from highwater.quota.sharing.grants import LEASE_TICKS
from highwater.quota.sharing.ledger import Ledger
from tests.unit.quota.images import image, limited, topic

LIMIT = 1_000_000
TICK_MS = 1_000
LEASE_MS = LEASE_TICKS * TICK_MS
STEP_MS = 100
WATCHED_MS = 25_000
WINDOW_MS = 10_000


@dataclass(frozen=True)
class Place:
    """One node: its leaders, what its clients send, and when its last allocation came."""

    leaders: int
    demand: int
    received_ms: int


places = st.lists(
    st.builds(
        Place,
        leaders=st.integers(1, 5),
        demand=st.integers(0, 2 * LIMIT),
        received_ms=st.integers(0, TICK_MS),
    ),
    min_size=1,
    max_size=6,
)
HOT_LATE_AND_IDLE_EARLY = [Place(1, 2 * LIMIT, TICK_MS), Place(1, 0, 0), Place(1, 0, 0)]


def window_sums(passed):
    """Of all windows of `WINDOW_MS` over what passed in each step."""
    steps = WINDOW_MS // STEP_MS
    return [sum(passed[first : first + steps]) for first in range(len(passed))]


def take_all(bucket, now_ms):
    """What clients who always send more get through at this moment."""
    nbytes = bucket.available_bytes(now_ms)
    bucket.charge(now_ms, nbytes)
    return nbytes


@example(places=HOT_LATE_AND_IDLE_EARLY)
@given(places=places)
def test_the_sum_stays_within_the_limit_when_the_service_dies(places):
    sharing = Sharing(
        limit=LIMIT,
        leaders={number: one.leaders for number, one in enumerate(places)},
        demands={number: Demand(served=one.demand) for number, one in enumerate(places)},
    )
    rates, floors = WaterfillPolicy().share(sharing), StaticPolicy().share(sharing)
    buckets = [TokenBucket(rate=rates[number]) for number in rates]
    passed = []
    for now_ms in range(0, WATCHED_MS, STEP_MS):
        for number, (one, bucket) in enumerate(zip(places, buckets, strict=True)):
            if one.received_ms <= now_ms < one.received_ms + STEP_MS:
                bucket.set_lease(
                    now_ms,
                    rate=rates[number],
                    floor=floors[number],
                    expires_in_ms=LEASE_MS,
                )
        assert sum(bucket.rate(now_ms) for bucket in buckets) <= LIMIT + 1
        passed.append(sum(take_all(bucket, now_ms) for bucket in buckets))
    assert max(window_sums(passed)) <= LIMIT * (WINDOW_MS / 1000 + BURST_S) + len(places)
    # In the end everybody has his static share, and all of the limit can be used.
    assert sum(bucket.rate(WATCHED_MS) for bucket in buckets) >= LIMIT - 1


class Node:
    """Goes by what the ledger sends it, as long as it hears that."""

    def __init__(self, node_id):
        self.node_id = node_id
        self.bucket = TokenBucket()
        self.generation = 0

    def take(self, answer, now_ms):
        (one,) = answer.allocations
        self.generation = answer.generation
        self.bucket.set_lease(
            now_ms,
            rate=one.produce.rate,
            floor=one.produce.floor,
            expires_in_ms=answer.expires_in_ms,
        )

    def usage(self, served, now_ms):
        rate = self.bucket.rate(now_ms)
        return NodeUsage(
            node_id=self.node_id,
            node_epoch=1,
            tick_ms=TICK_MS,
            applied_generation=self.generation,
            instances={
                "default": InstanceUsage(
                    produced=served,
                    leader_partitions=1,
                    produce_rate=None if rate is None else int(rate),
                )
            },
        )


@given(
    demands=st.tuples(*[st.integers(0, 2 * LIMIT)] * 3),
    phases=st.tuples(*[st.integers(0, TICK_MS // STEP_MS - 1)] * 3),
)
@example(demands=(2 * LIMIT, 0, 0), phases=(0, 3, 6))
def test_the_sum_stays_within_the_limit_when_one_node_alone_is_cut_off(demands, phases):
    """The last node's messages go nowhere from the fifth second on; its clients still reach it."""
    ledger = Ledger(WaterfillPolicy(), tick_ms=TICK_MS, wall_ms=0)
    ledger.set_limits(
        Limits.of(image([topic("t", [1, 2, 3])], limited(produce_bytes_per_second=LIMIT))), 0
    )
    nodes = [Node(number) for number in (1, 2, 3)]
    cut_ms, silent_ms = 5_000, SILENCE_TICKS_MAX * TICK_MS
    last_report_ms, forgotten = 0, False
    passed = []
    for now_ms in range(0, cut_ms + WATCHED_MS, STEP_MS):
        if now_ms >= last_report_ms + silent_ms and not forgotten:
            ledger.forget(3, 0, now_ms)
            forgotten = True
        for node, demand, phase in zip(nodes, demands, phases, strict=True):
            is_due = now_ms // STEP_MS % (TICK_MS // STEP_MS) == phase
            if not is_due or (node.node_id == 3 and now_ms >= cut_ms):
                continue
            if node.node_id == 3:
                last_report_ms = now_ms
            served = min(demand, int(node.bucket.rate(now_ms) or 0))
            ledger.report(node.usage(served, now_ms), now_ms)
            node.take(ledger.allocations_for(node.node_id, now_ms), now_ms)
        rated = [node.bucket for node in nodes if not node.bucket.unlimited]
        passed.append(sum(take_all(bucket, now_ms) for bucket in rated))
    assert max(window_sums(passed)) <= 1.02 * LIMIT * WINDOW_MS / 1000
