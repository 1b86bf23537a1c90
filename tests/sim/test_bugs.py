"""The simulation proves itself: known bugs are found, and not in the product itself."""

import pytest

from tests.sim.bugs import BUGS
from tests.sim.hunt import BUG_SEEDS_MAX, find_bug, try_seed

NAMES = [bug.name for bug in BUGS]


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 10


@pytest.mark.parametrize("bug", BUGS, ids=NAMES)
def test_the_recorded_seed_finds_it(bug) -> None:
    assert bug.rare or 0 <= bug.seed < BUG_SEEDS_MAX
    assert try_seed(bug.seed, bug).failure, f"{bug.name} is not found any more"
    assert try_seed(bug.seed).failure == "", "the seed passes without it"


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [bug.name for bug in BUGS if not bug.rare])
def test_it_is_found_within_a_thousand_seeds(name: str) -> None:
    found = find_bug(name)
    assert 0 <= found.seed < BUG_SEEDS_MAX
