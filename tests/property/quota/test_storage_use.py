"""The use of storage counts exactly while what nodes report agrees with the image."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.quota.core.limits import Limits
from highwater.quota.core.usage import InstanceUsage, NodeUsage
from highwater.quota.sharing.storage_use import StorageUse
from tests.unit.quota.images import image, limited, topic

LIMIT = 1_000
NODES = (1, 2, 3)

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("report"), st.sampled_from(NODES), st.integers(0, 3), st.integers(1, 600)
        ),
        st.tuples(st.just("honest"), st.sampled_from(NODES), st.just(0), st.integers(1, 600)),
        st.tuples(st.just("forget"), st.sampled_from(NODES), st.just(0), st.just(0)),
        st.tuples(st.just("move"), st.sampled_from((-1, *NODES)), st.integers(0, 2), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_the_sum_is_told_only_when_all_leaders_are_counted_once(steps):
    use = StorageUse(1_000)
    leaders = [1, 2, 3]
    reports = {}
    connected = set()

    def place():
        use.set_limits(Limits.of(image([topic("t", leaders)], limited(storage_bytes=LIMIT))), 0)

    place()
    closed = False
    for what, node, number, nbytes in steps:
        if what == "move":
            leaders[number] = node
            place()
        elif what == "forget":
            connected.discard(node)
            use.forget(node)
        else:
            count = leaders.count(node) if what == "honest" else number
            stored = nbytes if count else 0
            one = InstanceUsage(stored=stored, leader_partitions=count)
            instances = {"default": one}
            use.report(NodeUsage(node_id=node, node_epoch=1, tick_ms=1_000, instances=instances), 0)
            connected.add(node)
            reports[node] = count, stored
        for lost in [one for one in reports if one not in connected and one not in leaders]:
            del reports[lost]
        counts = {node: count for node, (count, _) in reports.items() if count}
        settled = counts == {one: leaders.count(one) for one in leaders if one != -1}
        settled = settled and -1 not in leaders
        total = sum(stored for _, stored in reports.values())
        assert use.total("default") == total
        assert use.left("default", 0) == (max(0, LIMIT - total) if settled else None)
        if settled and what in {"report", "honest"}:
            closed = total >= (LIMIT * 98 // 100 if closed else LIMIT)
        assert use.exhausted("default") == closed
