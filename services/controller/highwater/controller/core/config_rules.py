"""What the controller asks of a rule book for configs before it stores them."""

from collections.abc import Mapping
from typing import Protocol


class ConfigRules(Protocol):
    """Names and values that topics and nodes may be given."""

    def topic_error(self, kept: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
        """Why a topic that keeps `kept` may not be given `wanted`, or None."""
        ...

    def changed_list(
        self,
        name: str,
        topic: Mapping[str, str],
        cluster: Mapping[str, str],
        *,
        added: str,
        removed: str,
    ) -> str | None:
        """A topic's list in effect, with items added and taken away; None if it is no list."""
        ...

    def changed_node_list(
        self, name: str, present: Mapping[str, str], *, added: str, removed: str
    ) -> str | None:
        """A dynamic config of a node, or of all, likewise: what is `present` there, or the default."""
        ...

    def node_error(self, wanted: Mapping[str, str], *, all_nodes: bool) -> str | None:
        """Why a node, or all nodes at once, may not be given these dynamic configs, or None."""
        ...

    def min_isr(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> int:
        """min.insync.replicas of a topic with these configs, under those of all nodes."""
        ...

    def unclean(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
        """unclean.leader.election.enable likewise."""
        ...
