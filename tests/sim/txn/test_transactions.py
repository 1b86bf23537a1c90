"""Seeds with transactions: a handful in `make check`, more in `make full`; all that can happen does."""

from collections import Counter

import pytest

from tests.sim.bug import NO_BUG
from tests.sim.hunt import try_seed
from tests.sim.options import draw
from tests.sim.simulation import run_seed
from tests.sim.txn.cluster import EVENTS_SHARE, Cluster
from tests.sim.world import EVENTS

HANDFUL = 6
SEEDS = 300


@pytest.mark.parametrize("seed", range(HANDFUL))
def test_a_seed(seed: int) -> None:
    outcome = try_seed(seed, transactions=True)
    assert outcome.failure == "", f"make sim TXN=1 SEED={seed}"
    assert outcome.events >= EVENTS_SHARE * EVENTS


def test_a_seed_is_a_complete_description() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        run_seed(5, events=600, trace=trace.append, transactions=True)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 300


def test_a_share_of_the_seeds_has_transactions() -> None:
    found = [seed for seed in range(1_000) if draw(seed).transactions]
    assert 10 <= len(found) <= 30


def test_a_seed_meets_what_can_happen() -> None:
    """Both ends of transactions, and producers that are fenced while they want to commit."""
    met: Counter[str] = Counter()
    for seed in range(100, 104):
        cluster = Cluster(draw(seed, transactions=True), NO_BUG)
        cluster.run()
        met.update(cluster.observer.fates())
    assert met["committed"] > 20
    assert met["aborted"] > 20
    assert met["aborted though a commit was asked for"] > 0


@pytest.mark.full
@pytest.mark.timeout(3_600)
def test_many_seeds() -> None:
    failed = {}
    for seed in range(1_000, 1_000 + SEEDS):
        if failure := try_seed(seed, transactions=True).failure:
            failed[seed] = failure
    assert failed == {}, "make sim TXN=1 SEED=..."
