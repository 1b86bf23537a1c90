"""The simulation proves itself: known bugs are found, and not in the product itself."""

import re
from pathlib import Path

import pytest

from tests.sim.bug import Bug
from tests.sim.bugs import BUGS
from tests.sim.disk import SimLog
from tests.sim.hunt import BUG_SEEDS_MAX, find_bug, try_seed
from tests.sim.log_producers import Entry

NAMES = [bug.name for bug in BUGS]
TRACK_RECORD = Path(__file__).parent.parent / "robustness" / "TRACK_RECORD.md"


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 10


def test_the_track_record_names_each_with_its_seed() -> None:
    text = TRACK_RECORD.read_text()
    row = r"^\| ([a-z-]+): .* \| `make sim SEED=(\d+) BUG=([a-z-]+)` \|$"
    rows = re.findall(row, text, re.MULTILINE)
    named = [(name, int(seed)) for name, seed, _ in rows]
    assert sorted(named) == sorted((bug.name, bug.seed) for bug in BUGS)
    assert all(name == replayed for name, _, replayed in rows)
    seeds = {bug.name: bug.seed for bug in BUGS}
    for seed, name in re.findall(r"make sim SEED=(\d+) BUG=([a-z-]+)", text):
        assert seeds[name] == int(seed), f"{name}, also where it was found"


@pytest.mark.parametrize("bug", BUGS, ids=NAMES)
def test_the_recorded_seed_finds_it(bug: Bug) -> None:
    assert bug.rare or 0 <= bug.seed < BUG_SEEDS_MAX
    outcome = try_seed(bug.seed, bug)
    assert outcome.failure, f"{bug.name} is not found any more"
    assert not outcome.crashed, outcome.failure
    without = try_seed(bug.seed, transactions=bug.transactional)
    assert without.failure == "", "the seed passes without it"


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("high-watermark-goes-back", "R4: the high watermark of node"),
        ("keeps-empty-epochs", r"R7: node \d+ has .* last and knows of epochs"),
        ("truncates-to-high-watermark", r"R7: node \d+ cuts .* its leader has it, too"),
    ],
)
def test_it_is_seen_at_once(name: str, failure: str) -> None:
    """Where it happens, not by what becomes of it."""
    (bug,) = (known for known in BUGS if known.name == name)
    assert re.search(failure, try_seed(bug.seed, bug).failure)


def test_an_epoch_that_a_follower_does_not_note_is_seen_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = SimLog.append

    def append_without_epoch(log: SimLog, entry: Entry) -> None:
        is_new = entry[0] > log.epochs.latest
        append(log, entry)
        if is_new:
            log.epochs.truncate_from_end(log.end - 1)

    monkeypatch.setattr(SimLog, "append", append_without_epoch)
    assert re.search(r"R7: node \d+ has .* last and knows of epochs \[\]", try_seed(0).failure)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [bug.name for bug in BUGS if not bug.rare])
def test_it_is_found_within_a_thousand_seeds(name: str) -> None:
    found = find_bug(name)
    assert 0 <= found.seed < BUG_SEEDS_MAX
