"""Seeds that fail in whatever way are told by number, and the command line takes what it knows."""

import re
from typing import Any

import pytest

from tests.sim import __main__ as command
from tests.sim import hunt
from tests.sim.bug import Bug
from tests.sim.bugs import BUGS
from tests.sim.hunt import Outcome, find_bug, try_seed, try_seeds


def crashes(*_: Any, **__: Any) -> Any:
    raise KeyError("a node that nobody knows")


CRASHING = Bug(name="crashes", seed=0, change_nodes=crashes)


def test_an_exception_that_nobody_expects_is_the_outcome_of_its_seed() -> None:
    outcome = try_seed(0, CRASHING)
    assert (outcome.seed, outcome.failure) == (0, "KeyError: 'a node that nobody knows'")
    assert outcome.crashed


def test_a_sweep_goes_on_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_seed(seed: int, *_: object, **__: object) -> None:
        raise (KeyError if seed == 0 else AssertionError)(seed)

    monkeypatch.setattr(hunt, "run_seed", run_seed)
    outcomes = list(try_seeds(range(2), 1))
    assert outcomes == [
        Outcome(0, 0, 0, 0, 0, "KeyError: 0", crashed=True),
        Outcome(1, 0, 0, 0, 0, "AssertionError: 1"),
    ]
    assert find_bug(BUGS[0].name, range(1)).seed == -1, "it is broken, not found"
    assert find_bug(BUGS[0].name, range(2)).seed == 1


def test_a_replay_shows_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.replay(0, CRASHING) == 1
    out = capsys.readouterr().out
    assert re.search(r"^ *\d+ KeyError: 'a node that nobody knows'$", out, re.MULTILINE)
    assert "in crashes" in out


@pytest.mark.parametrize("arguments", [["--seed", "8", "--bug", "typo"], ["--bug", BUGS[0].name]])
def test_a_bug_that_would_not_be_put_in(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2


def test_a_known_bug_is_put_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seed", "0", "--bug", "admits-anybody"]) == 1
    assert "ViolationError: R" in capsys.readouterr().out
