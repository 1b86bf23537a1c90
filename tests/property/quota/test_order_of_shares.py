"""What nodes go by never adds up to more than the limit, whenever answers come."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.waterfill import WaterfillPolicy
from highwater.quota.core.usage import InstanceUsage, NodeUsage
from highwater.quota.sharing.ledger import Ledger
from tests.unit.quota.images import image, limited, topic

LIMIT = 1_000_000
TICK_MS = 1_000
NODES = (1, 2, 3)

steps = st.lists(
    st.tuples(
        st.sampled_from(["report", "push", "move", "reconnect"]),
        st.sampled_from(NODES),
        st.integers(0, 2 * LIMIT),
        st.integers(0, 400),
    ),
    max_size=60,
)


class Node:
    """Applies what it is sent at once, and says so with its next report."""

    def __init__(self, node_id):
        self.node_id = node_id
        self.generation = 0
        self.rate = None
        self.stream = 0

    def take(self, answer):
        (one,) = answer.allocations
        self.generation, self.rate = answer.generation, one.produce.rate

    def usage(self, served, leads):
        return NodeUsage(
            node_id=self.node_id,
            node_epoch=1,
            tick_ms=TICK_MS,
            applied_generation=self.generation,
            instances={
                "default": InstanceUsage(
                    produced=served, leader_partitions=leads, produce_rate=self.rate
                )
            },
        )


@given(steps)
def test_the_sum_in_effect_is_never_above_the_limit(steps):
    ledger = Ledger(WaterfillPolicy(), tick_ms=TICK_MS, wall_ms=0)
    leaders, now_ms = [1, 2, 3], 0
    nodes = {node_id: Node(node_id) for node_id in NODES}

    def place():
        limits = limited(produce_bytes_per_second=LIMIT)
        ledger.set_limits(Limits.of(image([topic("t", leaders)], limits)), now_ms)

    def report(node, served):
        ledger.report(node.usage(served, leaders.count(node.node_id)), now_ms, node.stream)
        node.take(ledger.allocations_for(node.node_id, now_ms))

    place()
    for node in nodes.values():
        report(node, 0)
    for what, node_id, number, passed_ms in steps:
        now_ms += passed_ms
        node = nodes[node_id]
        if what == "move":
            leaders[number % 3] = node_id
            place()
        elif what == "push":
            node.take(ledger.allocations_for(node_id, now_ms))
        else:
            if what == "reconnect":
                ledger.forget(node_id, node.stream, now_ms)
                node.stream, node.generation = node.stream + 1, 0
            report(node, number)
        assert sum(one.rate for one in nodes.values()) <= LIMIT
