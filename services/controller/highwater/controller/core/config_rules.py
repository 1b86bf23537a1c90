"""The config checks that the controller makes before it stores configs."""

from collections.abc import Mapping
from typing import Protocol


class ConfigRules(Protocol):
    """Names and values that are valid for topics and nodes."""

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
        """A topic's effective list with items added and removed; None if the config is no list."""
        ...

    def changed_node_list(
        self, name: str, present: Mapping[str, str], *, added: str, removed: str
    ) -> str | None:
        """The same for a node or all nodes: the list in `present`, or its default."""
        ...

    def node_error(self, wanted: Mapping[str, str], *, all_nodes: bool) -> str | None:
        """Why a node, or all nodes at once, may not be given these dynamic configs, or None."""
        ...

    def min_isr(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> int:
        """min.insync.replicas with these topic configs and cluster configs."""
        ...

    def unclean(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
        """unclean.leader.election.enable with these topic configs and cluster configs."""
        ...
