"""The index that deltas update equals one made by a full scan of the image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from highwater.controller.core.membership import ElectionRules, change_nodes, fence, unfence
from highwater.controller.core.partition_index import (
    PartitionIndex,
    PartitionKey,
    in_order,
    index_of,
    indexing,
)
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState, TopicState
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, LeaderEpoch, NodeId, TopicId
from highwater.model.steps import finish
from tests.support.controller_images import image_of, image_with, node_state, topic_state
from tests.support.looked_at import Looks, longest_step

NODES = st.sampled_from([NodeId(n) for n in range(1, 5)])
NAMES = ("a", "b", "c")


def scanned(image: ClusterImage) -> PartitionIndex:
    """The index by the definition of each of its fields."""
    every = [((t.topic_id, p.partition), p) for t in image.topics.values() for p in t.partitions]
    nodes = [NodeId(n) for n in range(-1, 6)]
    replicas = {n: {k for k, p in every if n in p.replicas} for n in nodes}
    in_sync = {n: {k for k, p in every if n in p.isr} for n in nodes}
    led = {n: {k for k, p in every if n == p.leader} for n in nodes}
    return PartitionIndex(
        replicas={n: keys for n, keys in replicas.items() if keys},
        in_sync={n: keys for n, keys in in_sync.items() if keys},
        led={n: keys for n, keys in led.items() if keys},
        moving={k for k, p in every if p.adding_replicas or p.removing_replicas},
        led_by_others={k for k, p in every if p.leader != p.replicas[0]},
    )


@st.composite
def partitions(draw: st.DrawFn, number: int) -> PartitionState:
    replicas = tuple(draw(st.lists(NODES, min_size=1, max_size=3, unique=True)))
    some = st.lists(st.sampled_from(replicas), max_size=3, unique=True).map(tuple)
    return PartitionState(
        partition=number,
        leader=draw(st.sampled_from((NO_NODE, *replicas))),
        leader_epoch=LeaderEpoch(1),
        partition_epoch=draw(st.integers(0, 3)),
        replicas=replicas,
        isr=draw(some),
        adding_replicas=draw(some),
        removing_replicas=draw(some),
    )


@st.composite
def topics(draw: st.DrawFn, name: str) -> TopicState:
    return TopicState(
        topic_id=TopicId(name.encode() * 16),
        instance=DEFAULT_INSTANCE,
        name=name,
        partitions=tuple(draw(partitions(n)) for n in range(draw(st.integers(1, 4)))),
    )


@given(st.data())
def test_every_delta_updates_the_index_as_a_full_scan_would(
    data: st.DataObject,
) -> None:
    image = image_of()
    index = index_of(image)
    for revision in range(101, 101 + data.draw(st.integers(1, 5))):
        kinds = {
            name: data.draw(st.sampled_from(("whole", "some", "gone", "same"))) for name in NAMES
        }
        ids = {name: TopicId(name.encode() * 16) for name in NAMES}
        some = {
            ids[name]: tuple(
                data.draw(partitions(n))
                for n in data.draw(
                    st.lists(
                        st.integers(0, len(image.topics[ids[name]].partitions) - 1), unique=True
                    )
                )
            )
            for name in NAMES
            if kinds[name] == "some" and ids[name] in image.topics
        }
        delta = ClusterDelta(
            revision=revision,
            topics=tuple(data.draw(topics(name)) for name in NAMES if kinds[name] == "whole"),
            partitions=some,
            removed_topics=frozenset(ids[name] for name in NAMES if kinds[name] == "gone"),
        )
        former, known = index, scanned(image)
        index = finish(index.after(image, delta))
        image = image.apply(delta)
        assert index == index_of(image) == scanned(image)
        assert former == known, "the former index is as it was"


def test_unchanged_parts_are_shared() -> None:
    image = image_with(3, topics=[topic_state("t", [(1, 2), (3,)])])
    index = index_of(image)
    nodes_only = ClusterDelta(revision=101, nodes=(node_state(1, fenced=True),))
    assert finish(index.after(image, nodes_only)) is index
    (first, _) = image.topics[TopicId(b"t".ljust(16, b"\1"))].partitions
    shrunk = replace(first, isr=(NodeId(1),))
    delta = ClusterDelta(revision=101, partitions={TopicId(b"t".ljust(16, b"\1")): (shrunk,)})
    after = finish(index.after(image, delta))
    assert after.in_sync[NodeId(3)] is index.in_sync[NodeId(3)]
    assert NodeId(2) not in after.in_sync


@given(st.lists(NODES, max_size=8))
def test_elections_by_the_index_equal_those_of_a_full_scan(changes: list[NodeId]) -> None:
    rules = ElectionRules(min_isr=lambda _: 2, unclean=lambda _: False)
    image = image_with(4, topics=[topic_state("t", [(1, 2), (2, 3, 4), (4, 1, 2), (3,)])])
    index = index_of(image)
    every = {(t.topic_id, p.partition) for t in image.topics.values() for p in t.partitions}
    for revision, number in enumerate(changes, 101):
        node = image.nodes[number]
        changed = unfence(node) if node.fenced else fence(node)
        decision = change_nodes(image, [changed], rules, index=index)
        # The election always looks at partitions with a reassignment.
        looks_at_all = replace(index, moving=every)
        assert decision == change_nodes(image, [changed], rules, index=looks_at_all)
        assert decision.delta is not None
        delta = replace(decision.delta, revision=revision)
        index = finish(index.after(image, delta))
        image = image.apply(delta)


def test_a_step_of_a_new_index_looks_at_one_partition() -> None:
    looks = Looks()
    image = image_with(3, topics=[topic_state(name, [(1, 2, 3)] * 100) for name in "ab"])
    index, longest = longest_step(indexing(looks.at(image)), lambda: looks.count)
    assert index == index_of(image)
    assert looks.count >= 200
    assert longest <= 2


def test_keys_in_order() -> None:
    keys = [(TopicId(bytes([n % 7]) * 16), n) for n in range(1_000)]
    taken = 0

    def counted() -> Iterator[PartitionKey]:
        nonlocal taken
        for key in reversed(keys):
            taken += 1
            yield key

    found, longest = longest_step(in_order(counted()), lambda: taken)
    assert found == sorted(keys)
    assert taken == 1_000
    assert longest <= 256
