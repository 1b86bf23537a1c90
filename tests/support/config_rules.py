"""Config rules for tests that are not about configs."""

from __future__ import annotations

from collections.abc import Mapping


class PlainConfigRules:
    """Accepts every name in small letters, with any value."""

    def topic_error(self, kept: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
        return _error(wanted)

    def changed_list(
        self,
        name: str,
        topic: Mapping[str, str],
        cluster: Mapping[str, str],
        *,
        added: str,
        removed: str,
    ) -> str | None:
        """Treats every config as a list whose items are single characters."""
        present = topic.get(name, cluster.get(name, ""))
        kept = "".join(item for item in present if item not in removed)
        return None if name != name.lower() else kept + added

    def changed_node_list(
        self, name: str, present: Mapping[str, str], *, added: str, removed: str
    ) -> str | None:
        return self.changed_list(name, present, {}, added=added, removed=removed)

    def node_error(self, wanted: Mapping[str, str], *, all_nodes: bool) -> str | None:
        return _error(wanted)

    def min_isr(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> int:
        return int(topic.get("min.insync.replicas", cluster.get("min.insync.replicas", "1")))

    def unclean(self, topic: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
        return topic.get("unclean.leader.election.enable") == "true"


def _error(wanted: Mapping[str, str]) -> str | None:
    bad = [name for name in wanted if name != name.lower()]
    return f"{bad[0]} is not a config name" if bad else None
