"""What the controller asks of a rule book for configs before it stores them."""

from collections.abc import Mapping
from typing import Protocol


class ConfigRules(Protocol):
    """Names and values that topics and nodes may be given."""

    def topic_error(self, kept: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
        """Why a topic that keeps `kept` may not be given `wanted`, or None."""
        ...

    def node_error(self, wanted: Mapping[str, str], *, all_nodes: bool) -> str | None:
        """Why a node, or all nodes at once, may not be given these dynamic configs, or None."""
        ...
