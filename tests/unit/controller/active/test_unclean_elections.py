"""How elections that may have lost records are logged."""

from typing import Any

import pytest

from highwater.controller.active import unclean_elections
from highwater.controller.active.unclean_elections import UncleanElections
from highwater.controller.core.outcome import UncleanElection
from highwater.model.ids import LeaderEpoch, NodeId


class Lines:
    """A logger that keeps its warnings."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))


def elections(count: int) -> list[UncleanElection]:
    return [
        UncleanElection(topic="t", partition=number, leader=NodeId(2), leader_epoch=LeaderEpoch(7))
        for number in range(count)
    ]


def test_each_election_is_logged_and_a_total() -> None:
    log = Lines()
    told = UncleanElections(log)  # type: ignore[arg-type]
    told.committed(elections(2))
    told.committed(elections(1))
    assert told.total == 3
    assert [values["partition"] for _, values in log.lines] == [0, 1, 0]
    values = {"topic": "t", "partition": 1, "leader": 2, "leader_epoch": 7}
    assert log.lines[1] == ("unclean_election", values)


def test_only_the_first_of_many_elections_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unclean_elections, "LINES_MAX", 3)
    log = Lines()
    told = UncleanElections(log)  # type: ignore[arg-type]
    told.committed(elections(10))
    assert told.total == 10
    assert [event for event, _ in log.lines] == ["unclean_election"] * 3 + [
        "unclean_elections_not_listed"
    ]
    assert log.lines[-1][1] == {"count": 7}
