"""Replicas that live nodes cannot serve."""

from highwater.controller.core.offline_replicas import is_offline, nodes_without
from highwater.model.ids import NodeId, TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
OFFLINE = {
    NodeId(1): {A: frozenset({0, 1}), B: frozenset({5})},
    NodeId(2): {A: frozenset({1})},
    NodeId(3): {},
}


def test_by_partition() -> None:
    assert nodes_without(OFFLINE) == {A: {0: {1}, 1: {1, 2}}, B: {5: {1}}}
    assert nodes_without({}) == {}


def test_one_replica() -> None:
    assert is_offline(OFFLINE, NodeId(1), B, 5)
    assert not is_offline(OFFLINE, NodeId(1), B, 4)
    assert not is_offline(OFFLINE, NodeId(2), B, 5)
    assert not is_offline(OFFLINE, NodeId(9), A, 0)
