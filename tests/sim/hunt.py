"""Runs many seeds, on several cores; a seed is a unit of work, a failure names what repeats it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from highwater.partition.core.transitions import IllegalTransitionError
from tests.sim.bug import NO_BUG, Bug
from tests.sim.bugs import BUGS
from tests.sim.simulation import run_seed
from tests.sim.world import EVENTS

SEEDS_PER_TASK = 25
BUG_SEEDS_MAX = 1_000

VIOLATIONS = (AssertionError, IllegalTransitionError)
"""What a violated invariant raises, or a replica that is told what cannot be. Whatever else a seed
raises is a failure, too, but no known bug is shown by it.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One seed's run; `failure` is empty if it passed."""

    seed: int
    events: int
    committed: int
    epochs: int
    losses: int
    failure: str
    crashed: bool = False
    """The failure is none of `VIOLATIONS`."""


def try_seed(
    seed: int, bug: Bug = NO_BUG, events: int = EVENTS, *, transactions: bool = False
) -> Outcome:
    """Never raises, so that a sweep says which seed it was and goes on."""
    try:
        simulation = run_seed(seed, bug, events=events, transactions=transactions)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this seed's outcome
        failure = f"{type(error).__name__}: {error}"
        return Outcome(seed, 0, 0, 0, 0, failure, crashed=not isinstance(error, VIOLATIONS))
    return Outcome(seed, *simulation.summary(), "")


def _try_some(seeds: range, *, transactions: bool = False) -> list[Outcome]:
    return [try_seed(seed, transactions=transactions) for seed in seeds]


def try_seeds(seeds: range, processes: int, *, transactions: bool = False) -> Iterator[Outcome]:
    """Outcomes in the order of the seeds. `transactions`: all have some."""
    some = partial(_try_some, transactions=transactions)
    step = SEEDS_PER_TASK
    tasks = [range(first, min(first + step, seeds.stop)) for first in seeds[::step]]
    if processes <= 1:
        for task in tasks:
            yield from some(task)
        return
    with get_context("spawn").Pool(processes) as pool:
        for outcomes in pool.imap(some, tasks):
            yield from outcomes


@dataclass(frozen=True, slots=True)
class Find:
    """How a bug was found, or that it was not."""

    name: str
    seed: int
    failure: str


def find_bug(name: str, seeds: Iterable[int] = range(BUG_SEEDS_MAX)) -> Find:
    """The first seed that shows the bug; -1 if none does."""
    (bug,) = (known for known in BUGS if known.name == name)
    for seed in seeds:
        outcome = try_seed(seed, bug)
        if outcome.failure and not outcome.crashed:
            return Find(name, seed, outcome.failure)
    return Find(name, -1, "")


def find_bugs(processes: int) -> Iterator[tuple[Find, float]]:
    """Every known bug that is not rare, with the seconds since the start."""
    began = time.monotonic()
    with get_context("spawn").Pool(processes) as pool:
        for found in pool.imap(find_bug, [bug.name for bug in BUGS if not bug.rare]):
            yield found, time.monotonic() - began
