"""Every order of steps of three replicas, up to a few epochs and records: a small model checker.

Breadth first over states as values, so that a failure comes with a shortest story. The bounds cut
the stories off where they would need another epoch, record or change of the partition's record;
within them nothing is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import Any

from highwater.controller.core.reassign import is_moving
from highwater.partition.core.replica import Replica
from highwater.partition.core.transitions import Role
from tests.sim.model import Model

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
Packed = tuple[Any, ...]
"""A state, or the numbers of its parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where stories end."""

    records: int = 2
    """The longest log; a record is told by its epoch and offset."""
    leader_epochs: int = 3
    partition_epochs: int = 4
    lost_answers: bool = True
    """Answers, and requests to the controller, may be lost."""
    lost_logs: bool = False
    """Logs that fail while their nodes live, with a fetch that comes late."""
    size: int = 3
    factor: int | None = None
    """How many replicas there are at first; None is one on each node."""
    targets: tuple[tuple[int, ...], ...] = ()
    """Where the partition may be reassigned, any time."""
    min_isr: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was looked at; `story` is a shortest way to `failure`."""

    states: int
    steps: int
    failure: str = ""
    story: tuple[str, ...] = ()


class _Numbers:
    """A small number for each part of a state: states share most of their parts, so that they take
    less memory and are found again sooner.
    """

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._parts: list[Any] = []

    def of(self, parts: Packed, before: Packed, packed_before: Packed) -> Packed:
        """`packed_before` are the numbers of `before`, many of whose parts are still the same."""
        return tuple(
            number if part is old else self._number(part)
            for part, old, number in zip(parts, before, packed_before, strict=True)
        )

    def _number(self, part: Any) -> int:
        number = self._numbers.setdefault(part, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return number

    def parts(self, packed: Packed) -> Packed:
        return tuple(self._parts[number] for number in packed)


def explore(
    bounds: Bounds, replica: Callable[..., Replica] = Replica, *, states_max: int = 2_000_000
) -> Report:
    """All states within the bounds. AssertionError if there are more than `states_max`."""
    model = Model(size=bounds.size, min_isr=bounds.min_isr, replica=replica, factor=bounds.factor)
    numbers = _Numbers()
    state = model.save()
    first = numbers.of(state, (None,) * len(state), state)
    came_from: dict[Packed, tuple[Packed, str] | None] = {first: None}
    waiting = deque([first])
    steps = 0
    while waiting:
        packed = waiting.popleft()
        state = numbers.parts(packed)
        model.restore(state)
        for name, arguments, options in list(_steps(model, bounds)):
            model.restore(state)
            steps += 1
            try:
                getattr(model, name)(*arguments, **options)
                model.check_quorum()
            except AssertionError as error:
                story = (*_story(came_from, packed), _said(name, arguments, options))
                return Report(states=len(came_from), steps=steps, failure=str(error), story=story)
            after = numbers.of(model.save(), state, packed)
            if after not in came_from:
                came_from[after] = (packed, _said(name, arguments, options))
                waiting.append(after)
                assert len(came_from) <= states_max
    return Report(states=len(came_from), steps=steps)


def _said(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> str:
    return intern(f"{name}{arguments}{options or ''}")


def _steps(model: Model, bounds: Bounds) -> Iterator[Step]:
    partition = model.partition
    may_change = partition.partition_epoch < bounds.partition_epochs
    may_elect = partition.leader_epoch < bounds.leader_epochs and may_change
    for node in model.late:
        yield "arrive", (node,), {}
    if may_elect:
        for target in bounds.targets:
            yield "move", (target,), {}
        if is_moving(partition):
            yield "cancel", (), {}
    for node in model.nodes:
        replica = model.replicas[node]
        known = replica.isr.partition_epoch
        # A node without a replica, which is to have none, has nothing to learn.
        concerned = node in partition.replicas or known >= 0
        if known < partition.partition_epoch and concerned and node in model.alive:
            yield "learn", (node,), {}
        if replica.role is Role.LEADER:
            if len(model.logs[node]) < bounds.records:
                yield "produce", (node, ""), {}
            if may_change:
                yield from _isr_steps(node, bounds)
        elif replica.role is Role.FOLLOWER:
            yield "fetch", (node,), {}
            if bounds.lost_answers:
                yield "fetch", (node,), {"answered": False}
        if node in model.alive and may_elect:
            yield "fence", (node,), {}
            yield "kill", (node,), {}
            if bounds.lost_logs:
                yield "lose", (node,), {}
        elif node not in model.alive and may_elect:
            yield "unfence", (node,), {}


def _isr_steps(node: int, bounds: Bounds) -> Iterator[Step]:
    for lag in (True, False):
        yield "change_isr", (node,), {"lag": lag}
        if bounds.lost_answers:
            yield "change_isr", (node,), {"lag": lag, "answered": False}
            yield "change_isr", (node,), {"lag": lag, "arrives": False}


def _story(came_from: dict[Packed, tuple[Packed, str] | None], state: Packed) -> tuple[str, ...]:
    said: list[str] = []
    while (before := came_from[state]) is not None:
        state, step = before
        said.append(step)
    return tuple(reversed(said))
