from highwater.partition.groups.consumer.assignment import (
    NOTHING,
    assignment_of,
    contains,
    overlap,
    pairs_of,
    union,
    without,
)
from tests.unit.partition.groups.consumer_dialogue import holding
from tests.unit.partition.groups.topics import topic_id

ONE = holding(t=(0, 1), u=(3,))
OTHER = holding(t=(1, 2))


def test_pairs_make_an_assignment_in_order_without_repetition():
    pairs = [(topic_id("t"), 1), (topic_id("u"), 3), (topic_id("t"), 0), (topic_id("t"), 1)]
    assert assignment_of(iter(pairs)) == ONE
    assert sorted(pairs_of(ONE)) == sorted(set(pairs))


def test_sets_of_partitions():
    assert union(ONE, OTHER) == holding(t=(0, 1, 2), u=(3,))
    assert without(ONE, OTHER) == holding(t=(0,), u=(3,))
    assert without(OTHER, OTHER) == NOTHING
    assert overlap(ONE, OTHER)
    assert not overlap(OTHER, holding(u=(1,)))
    assert contains(ONE, holding(t=(1,)))
    assert contains(ONE, NOTHING)
    assert not contains(ONE, OTHER)
