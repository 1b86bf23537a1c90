"""Replicas whose nodes say that their disks are nearly full, and that should therefore not lead.

They may lead: a partition without any other replica in sync is led by one of them. A node whose disk
has space again is avoided for a while longer, so that a disk around its mark does not make leaders
move to and fro: each such node loses its leaderships once, and gets them back when it has been quiet.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from highwater.controller.core.partition_index import PartitionKey
from highwater.model.ids import NodeId, TopicId

T = TypeVar("T")

PAUSE_MS: Final = 30_000
"""How long a replica is avoided after its disk has space again."""

_NOBODY: Final[frozenset[NodeId]] = frozenset()

Replicas = Mapping[TopicId, frozenset[int]]
"""One node's replicas, by topic."""

Avoided = Callable[[TopicId, int], frozenset[NodeId]]
"""The nodes that should not lead a partition now."""


def nobody(_topic_id: TopicId, _partition: int) -> frozenset[NodeId]:
    """No disk is nearly full."""
    return _NOBODY


class FullReplicas:
    """What nodes have said in one term. Not in the store: they tell it with each heartbeat."""

    def __init__(self, monotonic_ms: Callable[[], int], *, pause_ms: int = PAUSE_MS) -> None:
        self._monotonic_ms = monotonic_ms
        self._pause_ms = pause_ms
        self._told: dict[NodeId, Replicas] = {}
        """What each node said last, if that is anything."""
        self._quiet_ms: dict[NodeId, dict[PartitionKey, int]] = {}
        """Until when replicas are avoided that were told before."""
        self.changes = 0
        """How often a node has said something new."""

    @property
    def told(self) -> Mapping[NodeId, Replicas]:
        """What nodes say now."""
        return MappingProxyType(self._told)

    def note(self, node: NodeId, replicas: Replicas) -> None:
        """Takes a heartbeat's list, which replaces the last one."""
        before = self._told.get(node, {})
        quiet = self._quiet_ms.get(node, {})
        if not before and not replicas and not quiet:
            return
        now_ms = self._monotonic_ms()
        if replicas != before:
            self.changes += 1
            for topic_id, numbers in before.items():
                for number in numbers.difference(replicas.get(topic_id, ())):
                    quiet[topic_id, number] = now_ms + self._pause_ms
        _put(self._told, node, replicas)
        _put(self._quiet_ms, node, {key: ms for key, ms in quiet.items() if ms > now_ms})

    def keep(self, nodes: Collection[NodeId]) -> None:
        """Forgets nodes that are not among these."""
        for table in (self._told, self._quiet_ms):
            for node in table.keys() - nodes:
                del table[node]

    def avoided(self, topic_id: TopicId, partition: int) -> frozenset[NodeId]:
        """The nodes that should not lead the partition while another one can."""
        if not self._told and not self._quiet_ms:
            return _NOBODY
        told = {n for n, topics in self._told.items() if partition in topics.get(topic_id, ())}
        key, now_ms = (topic_id, partition), self._monotonic_ms()
        quiet = {node for node, keys in self._quiet_ms.items() if keys.get(key, 0) > now_ms}
        return frozenset(told | quiet)


def _put(table: dict[NodeId, T], node: NodeId, value: T) -> None:
    if value:
        table[node] = value
    else:
        table.pop(node, None)
