"""Runs a seed: one replicated partition, or in a share of the seeds a cluster with transactions."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.bug import NO_BUG, Bug
from tests.sim.options import Options, draw
from tests.sim.txn.cluster import Cluster
from tests.sim.world import EVENTS, World

Simulation = World | Cluster


def build(
    options: Options, bug: Bug = NO_BUG, trace: Callable[[str], None] | None = None
) -> Simulation:
    """What the options ask for, not yet run."""
    kind = Cluster if options.transactions else World
    return kind(options, bug, trace)


def run_seed(
    seed: int,
    bug: Bug = NO_BUG,
    *,
    events: int = EVENTS,
    trace: Callable[[str], None] | None = None,
    transactions: bool = False,
) -> Simulation:
    """Runs a seed to its end, or raises ViolationError. `transactions`: with them in any case."""
    simulation = build(draw(seed, transactions=transactions or bug.transactional), bug, trace)
    simulation.run(events)
    return simulation
