"""Which leaders must hand over before a decision replaces them."""

from __future__ import annotations

from dataclasses import replace

from highwater.controller.core.election import Candidates
from highwater.controller.core.hand_over import (
    LeaderMove,
    as_asked,
    finish_moves,
    leader_moves,
    still_led,
    waiting_moves,
)
from highwater.controller.core.membership import ElectionRules
from highwater.controller.core.outcome import Decision, delta_of
from highwater.controller.core.reassign import cancel, completed, start
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState
from highwater.model.ids import LeaderEpoch, NodeId
from tests.support.controller_images import node_state, topic_state

RULES = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: False)
ALL = Candidates(alive=frozenset(map(NodeId, (1, 2, 3))))


def image_of(partition: PartitionState, fenced: int = -1) -> ClusterImage:
    topic = replace(topic_state("t", [(1, 2)]), partitions=(partition,))
    nodes = {NodeId(n): node_state(n, fenced=n == fenced) for n in (1, 2, 3)}
    return ClusterImage(revision=5, cluster_id="c", nodes=nodes, topics={topic.topic_id: topic})


def led_by(leader: int, *replicas: int) -> PartitionState:
    nodes = tuple(map(NodeId, replicas))
    return PartitionState(
        partition=0,
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(4),
        partition_epoch=7,
        replicas=nodes,
        isr=nodes,
        last_known_leader=NodeId(leader),
    )


def key_of(image: ClusterImage) -> tuple:
    (topic_id,) = image.topics
    return topic_id, 0


def to(image: ClusterImage, **fields: object) -> ClusterDelta | None:
    (topic,) = image.topics.values()
    return delta_of({topic.topic_id: {0: replace(topic.partitions[0], **fields)}})


def test_a_leader_that_lives_is_asked() -> None:
    image = image_of(led_by(1, 1, 2))
    delta = to(image, leader=NodeId(2), leader_epoch=LeaderEpoch(5))
    assert leader_moves(image, delta) == [
        LeaderMove(key=key_of(image), leader=NodeId(1), leader_epoch=4, successor=NodeId(2))
    ]
    assert leader_moves(image, to(image, isr=(NodeId(1),))) == []
    assert leader_moves(image, None) == []


def test_a_dead_or_missing_leader_is_not_asked() -> None:
    fenced = image_of(led_by(1, 1, 2), fenced=1)
    assert leader_moves(fenced, to(fenced, leader=NodeId(2))) == []
    nobody = image_of(led_by(-1, 1, 2))
    assert leader_moves(nobody, to(nobody, leader=NodeId(2))) == []


def test_a_move_waits_for_the_leader_that_it_removes() -> None:
    before = led_by(1, 1, 2)
    moving = start(before, (NodeId(2), NodeId(3)), ALL, min_isr=1, leader_first=True)
    assert moving is not None
    assert list(waiting_moves(image_of(moving))) == [], "node 3 has nothing yet"
    moving = replace(moving, isr=(NodeId(1), NodeId(2), NodeId(3)))
    assert completed(moving, ALL, min_isr=1, leader_first=True) is moving
    image = image_of(moving)
    assert list(waiting_moves(image)) == [key_of(image)]
    delta = to(image)
    assert delta is not None
    assert list(waiting_moves(delta)) == [key_of(image)]
    decision = finish_moves(image, [key_of(image)], RULES, {})
    assert decision.result == 1
    assert decision.delta is not None
    ((after,),) = decision.delta.partitions.values()
    assert (after.leader, after.replicas, after.leader_epoch, after.partition_epoch) == (
        2,
        (2, 3),
        5,
        moving.partition_epoch + 1,
    )
    assert [move.successor for move in leader_moves(image, decision.delta)] == [2]


def test_a_move_ends_at_a_leader_whose_disk_has_space() -> None:
    moving = start(led_by(1, 1, 2), (NodeId(2), NodeId(3)), ALL, min_isr=1, leader_first=True)
    assert moving is not None
    image = image_of(replace(moving, isr=(NodeId(1), NodeId(2), NodeId(3))))
    rules = replace(RULES, avoided=lambda *_: frozenset({NodeId(2)}))
    decision = finish_moves(image, [key_of(image)], rules, {})
    assert [move.successor for move in leader_moves(image, decision.delta)] == [3]


def test_a_move_that_is_called_back_waits_for_the_leader_that_it_was_adding() -> None:
    moving = start(led_by(1, 1, 2), (NodeId(1), NodeId(3)), ALL, min_isr=1, leader_first=True)
    assert moving is not None
    led = replace(moving, leader=NodeId(3), isr=(NodeId(1), NodeId(2), NodeId(3)))
    back = cancel(led, ALL, min_isr=1, leader_first=True)
    assert back is not None
    image = image_of(back)
    assert list(waiting_moves(image)) == [key_of(image)]
    decision = finish_moves(image, [key_of(image)], RULES, {})
    (asked,) = leader_moves(image, decision.delta)
    assert (asked.leader, asked.successor) == (3, 1)


def test_a_dead_leader_is_not_waited_for() -> None:
    without = Candidates(alive=frozenset(map(NodeId, (2, 3))))
    done = start(led_by(1, 1, 2), (NodeId(2),), without, min_isr=1, leader_first=True)
    assert done is not None
    assert (done.leader, done.replicas) == (2, (2,))


def test_partitions_that_do_not_move_are_left_alone() -> None:
    image = image_of(led_by(1, 1, 2))
    (topic_id,) = image.topics
    decision = finish_moves(image, [(topic_id, 0), (topic_id, 9)], RULES, {})
    assert (decision.delta, decision.result) == (None, 0)


def test_a_leader_of_a_later_epoch_has_not_been_asked() -> None:
    image = image_of(led_by(1, 1, 2))
    key = key_of(image)
    asked = [LeaderMove(key=key, leader=NodeId(1), leader_epoch=4, successor=NodeId(2))]
    assert still_led(image, asked, {key}) == {key}
    assert still_led(image, asked, set()) == frozenset()
    later = image_of(replace(led_by(1, 1, 2), leader_epoch=LeaderEpoch(5)))
    assert still_led(later, asked, {key}) == frozenset()
    gone = ClusterImage(revision=6, cluster_id="c")
    assert still_led(gone, asked, {key}) == frozenset()


def test_leaders_that_live_go_only_where_they_were_asked_to_go() -> None:
    image = image_of(led_by(1, 1, 2, 3))
    asked = LeaderMove(key=key_of(image), leader=NodeId(1), leader_epoch=4, successor=NodeId(2))
    for successor, moves, stays in ((2, [asked], False), (3, [asked], True), (2, [], True)):
        delta = to(image, leader=NodeId(successor), leader_epoch=LeaderEpoch(5))
        decision = as_asked(image, Decision(delta=delta, result=1), moves)
        assert (decision.delta is None, decision.result) == (stays, 0 if stays else 1)
    removed = to(image, replicas=(NodeId(1), NodeId(2)))
    assert as_asked(image, Decision(delta=removed, result=1), []).delta is removed
    assert as_asked(image, Decision(delta=None, result=0), [asked]).delta is None
    gone = image_of(led_by(1, 1, 2, 3), fenced=1)
    delta = to(gone, leader=NodeId(3), leader_epoch=LeaderEpoch(5))
    assert as_asked(gone, Decision(delta=delta, result=1), [asked]).delta is delta
