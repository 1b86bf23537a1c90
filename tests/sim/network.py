"""A network that loses, delays, reorders, duplicates and cuts, one direction at a time.

Endpoints are numbers: nodes from 1 on, the controller, the gateway and clients below. A message is
the name of a method of the receiving process and its arguments. Requests reach whatever process
runs at the endpoint when they arrive; replies only the incarnation that asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.world import World

CONTROLLER = 0
GATEWAY = -1
CLIENTS = -100
"""Clients are CLIENTS, CLIENTS - 1, ..."""

INBOX_MAX = 200
LATE_MS = 1_500
"""Longer than a restart takes: messages of an incarnation may arrive when the next one works."""
ANY = None


class Network:
    """All links of one world."""

    def __init__(self, world: World) -> None:
        options = world.options
        self._world = world
        self._random = world.rng.random
        self.loss = options.loss
        self.duplicates = options.duplicates
        self.slow = options.slow
        self.slow_ms = options.slow_ms
        self.jitter_ms = options.jitter_ms
        self.slow_controller = False
        self.cut: set[tuple[int, int]] = set()

    def send(
        self,
        source: int,
        target: int,
        name: str,
        args: tuple[Any, ...],
        *,
        incarnation: int | None = ANY,
        repeatable: bool = False,
    ) -> None:
        """`repeatable` messages may arrive twice: the transport under them tries again."""
        if (source, target) in self.cut:
            return
        random = self._random
        if self.loss and random() < self.loss:
            return
        world = self._world
        delay = self._delay()
        if self.slow_controller and CONTROLLER in (source, target) and random() < 0.5:
            delay += int(random() * LATE_MS)
        world.after(delay, self.deliver, target, incarnation, name, args)
        if repeatable and self.duplicates and random() < self.duplicates:
            late = int(random() * LATE_MS) if random() < 0.3 else 2 * delay
            world.after(late, self.deliver, target, incarnation, name, args)

    def _delay(self) -> int:
        delay = 1 + int(self._random() * self.jitter_ms)
        if self.slow and self._random() < self.slow:
            delay += int(self._random() * self.slow_ms)
        return delay

    def deliver(
        self, target: int, incarnation: int | None, name: str, args: tuple[Any, ...]
    ) -> None:
        process = self._world.processes.get(target)
        if process is None or (incarnation is not ANY and process.incarnation != incarnation):
            return
        if process.paused:
            if len(process.inbox) < INBOX_MAX:
                process.inbox.append((name, args))
            return
        if self._world.trace is not None:
            self._world.say(f"{target}.{name}{args}")
        getattr(process, name)(*args)

    def cut_both(self, some: Iterable[int], others: Iterable[int]) -> None:
        others = tuple(others)
        for a in some:
            for b in others:
                if a != b:
                    self.cut |= {(a, b), (b, a)}

    def heal(self, links: Iterable[tuple[int, int]] | None = None) -> None:
        """Joins some links again, or all."""
        if links is None:
            self.cut.clear()
        else:
            self.cut.difference_update(links)

    def make_perfect(self) -> None:
        """For the phase in which everything has to come back."""
        self.cut.clear()
        self.loss = self.duplicates = self.slow = 0.0
        self.slow_controller = False
        self.jitter_ms = 2
