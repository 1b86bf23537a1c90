"""What the controller asks of a rule book for configs before it stores them."""

from typing import Protocol


class ConfigRules(Protocol):
    """Names and values that topics and nodes may be given."""

    def topic_error(self, name: str, value: str) -> str | None:
        """Why a topic may not have this config, or None."""
        ...

    def node_error(self, name: str, value: str) -> str | None:
        """Why a node may not have this dynamic config, or None."""
        ...
