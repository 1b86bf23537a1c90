"""The simulation from the command line: `make sim`, `make sim SEED=n`, `make sim-bugs`."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence

from tests.sim.bug import NO_BUG, Bug
from tests.sim.bugs import BUGS
from tests.sim.hunt import BUG_SEEDS_MAX, VIOLATIONS, find_bugs, try_seeds
from tests.sim.options import draw
from tests.sim.simulation import build

FAILURES_SHOWN = 10


def replay(seed: int, bug: Bug = NO_BUG, *, transactions: bool = False) -> int:
    """One seed with every message, fault and decision."""
    options = draw(seed, transactions=transactions or bug.transactional)
    print(options)
    world = build(options, bug, trace=print)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - as in a sweep
        print(f"{world.queue.now:6d} {type(error).__name__}: {error}")
        if not isinstance(error, VIOLATIONS):
            traceback.print_exc(file=sys.stdout)
        return 1
    events, committed, _, _ = world.summary()
    print(f"{world.queue.now:6d} passed: {events} events, {committed} records committed")
    return 0


def sweep(first: int, seeds: int, processes: int, *, transactions: bool = False) -> int:
    """Many seeds; prints how to repeat those that fail."""
    began = time.monotonic()
    failed = events = committed = epochs = losses = 0
    again = "make sim TXN=1" if transactions else "make sim"
    wanted = range(first, first + seeds)
    for outcome in try_seeds(wanted, processes, transactions=transactions):
        events += outcome.events
        committed += outcome.committed
        epochs += outcome.epochs
        losses += outcome.losses > 0
        if outcome.failure:
            failed += 1
            if failed <= FAILURES_SHOWN:
                print(f"{again} SEED={outcome.seed}\n    {outcome.failure}", flush=True)
    took = time.monotonic() - began
    print(
        f"{seeds} seeds from {first}: {failed} failed; {events} events, {committed} records, "
        f"{epochs} leader epochs, allowed losses in {losses} seeds; {took:.0f} s"
    )
    return 1 if failed else 0


def show_bugs(processes: int) -> int:
    """Each known bug and the seed that finds it."""
    shown = missed = 0
    for found, seconds in find_bugs(processes):
        shown += 1
        missed += found.seed < 0
        what = f"seed {found.seed}: {found.failure}" if found.seed >= 0 else "NOT FOUND"
        print(f"{seconds:5.0f} s  {found.name:30} {what[:150]}", flush=True)
    print(f"{shown} known bugs, {missed} not found within {BUG_SEEDS_MAX} seeds each")
    return 1 if missed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; `argv` without the program's name."""
    known = {bug.name: bug for bug in BUGS}
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, default=None, help="replay one, with a trace")
    parser.add_argument("--bug", choices=known, help="put a known bug in when replaying")
    parser.add_argument("--transactions", action="store_true", help="every seed has some")
    parser.add_argument("--bugs", action="store_true", help="find every known bug")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(argv)
    if arguments.seed is not None:
        bug = known.get(arguments.bug, NO_BUG)
        return replay(arguments.seed, bug, transactions=arguments.transactions)
    if arguments.bug is not None:
        parser.error("a bug needs the seed that is to be replayed with it (SEED=)")
    if arguments.bugs:
        return show_bugs(arguments.processes)
    return sweep(
        arguments.first,
        arguments.seeds,
        arguments.processes,
        transactions=arguments.transactions,
    )


if __name__ == "__main__":
    sys.exit(main())
