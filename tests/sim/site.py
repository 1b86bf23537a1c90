"""What a partition's world gets from the simulation that it is a part of.

A world that is alone has idempotent producers, and nothing beside the replicas. In a cluster with
transactions (`tests.sim.txn`) each process has a part that knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.log_producers import LogProducers

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess
    from tests.sim.world import World


class ProcessPart:
    """What else lives in a node's process, and hears of its replica; here nothing."""

    def leads(self) -> None:
        """The replica leads in a new epoch."""

    def stops_leading(self) -> None:
        """It leads no longer; also if it did not."""

    def log_changed(self) -> None:
        """The log has grown, or the high watermark has moved."""

    def run(self, function: Callable[..., object], *args: object) -> None:
        """Calls a function that may answer whoever waits in this process."""
        function(*args)

    def tick(self) -> None:
        """From time to time."""


NOTHING = ProcessPart()


class Site:
    """Of a world that is alone."""

    def part(self, process: NodeProcess) -> ProcessPart:
        """The part of a process that begins."""
        del process
        return NOTHING

    def producers(self, world: World) -> LogProducers:
        """For a new log."""
        del world
        return LogProducers()

    def checked(self, world: World) -> None:
        """After each event of the world, when its own rules were checked."""


ALONE = Site()
