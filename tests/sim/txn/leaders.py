"""What one client knows of who leads the partitions of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.world import World


class Leaders:
    """It drops metadata that is older than what it has (KIP-320)."""

    def __init__(self, worlds: dict[str, World]) -> None:
        self._worlds = worlds
        self._epochs: dict[str, int] = {}

    def of(self, topic: str) -> tuple[int, int] | None:
        """(node, leader epoch), if it is known who leads."""
        told = self._worlds[topic].gateways.ask()
        if told is None or told[1] < self._epochs.get(topic, -1):
            return None
        self._epochs[topic] = told[1]
        return told if told[0] >= 0 else None
