"""A node is decommissioned."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from highwater.controller.core.decommission import (
    Progress,
    decommission,
    decommissioning,
    recommission,
    remove_node,
)
from highwater.controller.core.election import Candidates
from highwater.controller.core.membership import ElectionRules
from highwater.controller.core.outcome import Decision, Refusal
from highwater.controller.core.partition_index import index_of
from highwater.controller.core.reassign import completed, is_moving, target_replicas
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import NodeId
from highwater.model.steps import finish
from tests.support.controller_images import image_of, node_state, topic_state
from tests.support.looked_at import Looks, longest_step

RULES = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: False)
LEAVING = NodeId(3)


def cluster(*topics: TopicState, count: int = 4, fenced: Iterable[int] = ()) -> ClusterImage:
    """Nodes 1 and 3 in rack a, each other node in its own rack."""
    down = set(fenced)
    racks = {1: "a", 3: "a"}
    nodes = [
        node_state(n, rack=racks.get(n, f"r{n}"), fenced=n in down) for n in range(1, count + 1)
    ]
    return image_of(nodes, topics)


def step(image: ClusterImage, *, moves_max: int = 100) -> tuple[ClusterImage, Progress]:
    decision = decommission(image, LEAVING, RULES, moves_max=moves_max, offline={})
    assert isinstance(decision.result, Progress)
    return applied(image, decision), decision.result


def applied(image: ClusterImage, decision: Decision[Progress | Refusal]) -> ClusterImage:
    if decision.delta is None:
        return image
    return image.apply(replace(decision.delta, revision=image.revision + 1))


def all_caught_up(image: ClusterImage) -> ClusterImage:
    """The image with all replicas in sync."""
    alive = Candidates(alive=frozenset(n.node_id for n in image.nodes.values() if not n.fenced))
    topics = {
        topic.topic_id: replace(
            topic,
            partitions=tuple(
                completed(replace(p, isr=p.replicas), alive, min_isr=1) for p in topic.partitions
            ),
        )
        for topic in image.topics.values()
    }
    return replace(image, topics=topics)


def test_replicas_leave_in_waves_until_none_is_left() -> None:
    image = cluster(topic_state("t", [(3, 1), (1, 3), (2, 3), (3, 4), (1, 2)]))
    image, progress = step(image, moves_max=2)
    assert progress == Progress(left=4, moving=2, waiting=0)
    assert image.nodes[LEAVING].decommissioning
    same, progress = step(image, moves_max=2)
    assert (same.topics, progress.moving) == (image.topics, 2), "no more than two at a time"
    image, progress = step(all_caught_up(image), moves_max=2)
    assert progress == Progress(left=2, moving=2, waiting=0)
    image, progress = step(all_caught_up(image), moves_max=2)
    assert progress == Progress(left=0, moving=0, waiting=0)
    partitions = image.topics[topic_state("t", []).topic_id].partitions
    assert all(LEAVING not in p.replicas and len(p.replicas) == 2 for p in partitions)


def test_new_places_are_in_other_racks_and_even() -> None:
    image = cluster(topic_state("t", [(3, 2)] * 6 + [(2, 3)] * 6), count=5)
    image, _ = step(image)
    (topic,) = image.topics.values()
    counts: Counter[int] = Counter()
    for p in topic.partitions:
        target = target_replicas(p)
        counts.update(target)
        assert target.index(2) == p.replicas.index(NodeId(2)), "the others keep their places"
    assert counts == {2: 12, 1: 4, 4: 4, 5: 4}


def test_a_rack_is_not_used_twice_while_there_is_another() -> None:
    image = cluster(topic_state("t", [(1, 3)] * 4))
    image, _ = step(image)
    (topic,) = image.topics.values()
    assert {target_replicas(p)[1] for p in topic.partitions} == {2, 4}
    image = cluster(topic_state("t", [(2, 3), (2, 3)]))
    image, _ = step(image)
    (topic,) = image.topics.values()
    assert {target_replicas(p)[1] for p in topic.partitions} == {1, 4}


def test_too_few_other_nodes() -> None:
    image = cluster(topic_state("wide", [(1, 2, 3, 4)]), topic_state("t", [(1, 2)]))
    decision = decommission(image, LEAVING, RULES, moves_max=1, offline={})
    assert isinstance(decision.result, Refusal)
    assert decision.result.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "wide (4 replicas)" in decision.result.message
    assert "t (" not in decision.result.message.replace("wide (", "")
    assert decision.delta is None, "the node is not marked either"


def test_many_topics_are_counted() -> None:
    image = cluster(*(topic_state(f"t{n:02d}", [(1, 2, 3, 4)]) for n in range(13)))
    decision = decommission(image, LEAVING, RULES, moves_max=1, offline={})
    assert isinstance(decision.result, Refusal)
    assert decision.result.message.endswith("t09 (4 replicas) and 3 more")


def test_replicas_wait_for_unavailable_nodes() -> None:
    image = cluster(topic_state("t", [(1, 2, 3)]), fenced=[4])
    image, progress = step(image)
    assert progress == Progress(left=1, moving=0, waiting=1)
    (topic,) = image.topics.values()
    assert not is_moving(topic.partitions[0])


def test_moves_to_elsewhere_are_not_disturbed() -> None:
    image = cluster(topic_state("t", [(1, 3)]))
    (topic,) = image.topics.values()
    moving = replace(
        topic.partitions[0],
        replicas=(NodeId(2), NodeId(3), NodeId(1)),
        adding_replicas=(NodeId(2),),
        removing_replicas=(NodeId(1),),
    )
    image = replace(image, topics={topic.topic_id: replace(topic, partitions=(moving,))})
    image, progress = step(image)
    assert progress == Progress(left=1, moving=0, waiting=0)
    image, progress = step(all_caught_up(image))
    assert progress.moving == 1


def test_a_decommission_is_cancelled() -> None:
    image, _ = step(cluster(topic_state("t", [(1, 3)])))
    decision = recommission(image, LEAVING, index=index_of(image))
    assert decision.result == Progress(left=1, moving=1, waiting=0)
    image = applied(image, decision)
    assert not image.nodes[LEAVING].decommissioning
    assert recommission(image, LEAVING, index=index_of(image)).delta is None


def test_a_node_is_forgotten_when_it_has_ended_and_is_empty() -> None:
    def why(image: ClusterImage, *, has_session: bool = False) -> str:
        decision = remove_node(image, LEAVING, index=index_of(image), has_session=has_session)
        assert decision.delta is None
        assert decision.result is not None
        return decision.result.message

    assert "is alive" in why(cluster())
    assert "is alive" in why(cluster(fenced=[3]), has_session=True)
    assert "holds 1 replicas" in why(cluster(topic_state("t", [(1, 3)]), fenced=[3]))
    fenced = cluster(fenced=[3])
    decision = remove_node(fenced, LEAVING, index=index_of(fenced), has_session=False)
    assert decision.result is None
    assert decision.delta is not None
    assert decision.delta.removed_nodes == {LEAVING}


def test_unknown_nodes_are_refused() -> None:
    unknown = ErrorCode.BROKER_ID_NOT_REGISTERED
    empty = cluster(count=2)
    for decision in (
        decommission(empty, LEAVING, RULES, moves_max=1, offline={}),
        recommission(empty, LEAVING, index=index_of(empty)),
    ):
        assert isinstance(decision.result, Refusal)
        assert decision.result.code == unknown
    removal = remove_node(empty, LEAVING, index=index_of(empty), has_session=False)
    assert removal.result is not None
    assert removal.result.code == unknown


def test_a_step_looks_at_few_partitions() -> None:
    looks = Looks()
    topics = [topic_state(name, [(1, 3), (2, 4)] * 50) for name in "abc"]
    image = cluster(*topics)
    steps = decommissioning(
        looks.at(image), LEAVING, RULES, index=index_of(image), moves_max=100, offline={}
    )
    decision, longest = longest_step(steps, lambda: looks.count)
    assert decision.result == Progress(left=150, moving=100, waiting=0)
    assert looks.count >= 300
    assert longest <= 3


def test_who_has_enough_moves_under_way_looks_at_its_own_partitions_only() -> None:
    image, _ = step(cluster(*(topic_state(name, [(1, 3)] + [(2, 4)] * 50) for name in "abc")))
    looks = Looks()
    steps = decommissioning(
        looks.at(image), LEAVING, RULES, index=index_of(image), moves_max=3, offline={}
    )
    assert finish(steps).result == Progress(left=3, moving=3, waiting=0)
    assert looks.count < 10


def test_the_others_numbers_are_looked_up_without_a_look_at_all_partitions() -> None:
    image, _ = step(cluster(*(topic_state(name, [(1, 3)] + [(2, 4)] * 50) for name in "abc")))
    looks = Looks()
    decision = recommission(looks.at(image), LEAVING, index=index_of(image))
    assert decision.result == Progress(left=3, moving=3, waiting=0)
    assert looks.count <= 3
