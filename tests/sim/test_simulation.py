"""Seeds without a known bug: a handful in `make check`, a thousand in `make test`."""

import os

import pytest

from tests.sim.hunt import try_seed, try_seeds
from tests.sim.simulation import run_seed
from tests.sim.world import EVENTS

HANDFUL = 12
ONCE_FAILED = (620, 6_702, 23_416)
"""Seeds that failed once, found by long runs."""
SEEDS = 1_000
SEEDS_SECONDS_MAX = 240


@pytest.mark.parametrize("seed", [*range(HANDFUL), *ONCE_FAILED])
def test_a_seed(seed: int) -> None:
    outcome = try_seed(seed)
    assert outcome.failure == "", f"make sim SEED={seed}"
    assert outcome.events >= EVENTS


def test_a_seed_is_a_complete_description() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        run_seed(5, events=600, trace=trace.append)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 300


@pytest.mark.slow
@pytest.mark.timeout(SEEDS_SECONDS_MAX)
def test_a_thousand_seeds() -> None:
    """Not one may fail; together they have to have met enough of what can happen."""
    outcomes = list(try_seeds(range(SEEDS), os.cpu_count() or 1))
    failed = {o.seed: o.failure for o in outcomes if o.failure}
    assert failed == {}, "make sim SEED=..."
    assert all(outcome.events >= EVENTS for outcome in outcomes)
    assert sum(outcome.committed for outcome in outcomes) > 30 * SEEDS
    assert sum(outcome.epochs for outcome in outcomes) > 4 * SEEDS
    assert sum(outcome.losses > 0 for outcome in outcomes) < SEEDS // 4
