"""The clock and the events of one simulation, whose partitions may be several worlds."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.world import World

Event = tuple[int, int, "World", Callable[..., None], tuple[Any, ...]]
"""When, its age, in which world, and what."""


class EventQueue:
    """Ordered by time and then by age."""

    def __init__(self) -> None:
        self.now = 0
        """Milliseconds."""
        self.events = 0
        """How many have happened."""
        self._queue: list[Event] = []
        self._age = 0

    def add(
        self, delay_ms: int, world: World, action: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        """Queues what happens in a world."""
        self._age += 1
        heappush(self._queue, (self.now + delay_ms, self._age, world, action, args))

    def step(self) -> None:
        """The next event."""
        self.now, _, world, action, args = heappop(self._queue)
        self.events += 1
        world.carry_out(action, args)
