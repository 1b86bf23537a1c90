"""The throttle of catch-up traffic: its settings in the image, and the resulting rate."""

import pytest

from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, LeaderEpoch, NodeId, TopicId
from highwater.partition.replication.throttle import UNLIMITED, WAIT_MS_MAX, Side, Throttle

NODE = NodeId(1)
RATE = "leader.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"
A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def topic(topic_id=A, *, partitions=3, replicas=(1, 2), configs=None):
    states = tuple(
        PartitionState(
            partition=n,
            leader=NODE,
            leader_epoch=LeaderEpoch(1),
            partition_epoch=1,
            replicas=tuple(NodeId(node) for node in replicas),
            isr=(NODE,),
        )
        for n in range(partitions)
    )
    return TopicState(
        topic_id=topic_id,
        instance=DEFAULT_INSTANCE,
        name=topic_id.hex(),
        partitions=states,
        configs=configs or {},
    )


def image(*topics, rate=None, of_all=None):
    return ClusterImage(
        revision=1,
        cluster_id="test",
        topics={one.topic_id: one for one in topics},
        node_configs={} if rate is None else {NODE: {RATE: rate}, NodeId(2): {RATE: "7"}},
        cluster_configs={} if of_all is None else {RATE: of_all},
    )


def throttle(rate=None, replicas="*", of_all=None):
    made = Throttle(Side.LEADER)
    made.follow(image(topic(configs={REPLICAS: replicas}), rate=rate, of_all=of_all), NODE, 0)
    return made


def test_without_configs_nothing_is_held():
    made = Throttle(Side.LEADER)
    made.follow(image(topic()), NODE, 0)
    assert (made.rate, made.partitions, made.room(0)) == (None, frozenset(), UNLIMITED)


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ("*", {0, 1, 2}),
        ("0:1,2:1", {0, 2}),
        ("0:2,1:1", {1}),
        ("", set()),
        ("0:11", set()),
        ("nonsense", set()),
    ],
)
def test_replicas_of_this_node_are_throttled(replicas, expected):
    assert throttle("1000", replicas).partitions == {(A, n) for n in expected}


def test_a_topic_without_replicas_here_is_not_ours():
    made = Throttle(Side.LEADER)
    both = topic(configs={REPLICAS: "*"}), topic(B, replicas=(2, 3), configs={REPLICAS: "*"})
    made.follow(image(*both), NODE, 0)
    assert made.partitions == {(A, 0), (A, 1), (A, 2)}


def test_each_side_has_its_own_configs():
    made = Throttle(Side.FOLLOWER)
    made.follow(image(topic(configs={REPLICAS: "*"}), rate="5", of_all="6"), NODE, 0)
    assert (made.rate, made.partitions) == (None, frozenset())
    assert (made.side.rate_config, made.side.replicas_config) == (
        "follower.replication.throttled.rate",
        "follower.replication.throttled.replicas",
    )


@pytest.mark.parametrize(
    ("rate", "of_all", "expected"),
    [
        ("1000", None, 1000),
        ("1000", "5", 1000),
        (None, "5", 5),
        ("0", None, 0),
        (str(2**63 - 1), "5", None),
        ("fast", None, None),
    ],
)
def test_the_nodes_own_rate_comes_before_that_of_all(rate, of_all, expected):
    assert throttle(rate, of_all=of_all).rate == expected


def transferred(made, *, until_ms, batch, from_ms=0):
    """Bytes of a sender that sends whenever there is room, one batch or more at a time."""
    now, total = from_ms, 0
    while now < until_ms:
        room = made.room(now)
        if room:
            nbytes = max(batch, room // batch * batch)
            made.passed(now, nbytes)
            total += nbytes
        else:
            now += made.wait_ms(now)
    return total


@pytest.mark.parametrize("batch", [100, 16_384, 1_000_000])
@pytest.mark.parametrize("rate", [50_000, 10_000_000])
def test_no_more_passes_than_the_rate_allows(rate, batch):
    made = throttle(str(rate))
    total = transferred(made, until_ms=10_000, batch=batch)
    assert rate * 9 <= total <= rate * 10 + max(rate // 10, batch)
    assert made.passed_bytes == total


def test_waits_are_never_nothing_and_never_long():
    made = throttle("10")
    assert made.room(0) == 1
    made.passed(0, 1_000_000)
    assert (made.room(0), made.wait_ms(0)) == (0, WAIT_MS_MAX)
    fast = throttle("1000000")
    assert fast.wait_ms(0) == 1


def test_a_rate_of_0_lets_nothing_through():
    made = throttle("0")
    assert (made.room(0), made.room(10**6), made.wait_ms(0)) == (0, 0, WAIT_MS_MAX)


def test_a_new_rate_holds_at_once():
    made = throttle("1000")
    made.passed(0, 1_000_000)
    assert made.room(1000) == 0
    made.follow(image(topic(configs={REPLICAS: "*"}), rate="100000000"), NODE, 1000)
    assert transferred(made, from_ms=1000, until_ms=2000, batch=1000) > 90_000_000
    made.follow(image(topic()), NODE, 2000)
    assert (made.room(2000), made.partitions) == (UNLIMITED, frozenset())


def test_lists_are_read_only_when_topics_have_changed():
    made = throttle("1000")
    before = made.partitions
    one = image(topic(configs={REPLICAS: "*"}), rate="1000")
    made.follow(one, NODE, 0)
    again = made.partitions
    assert again == before
    made.follow(one, NODE, 1)
    assert made.partitions is again
