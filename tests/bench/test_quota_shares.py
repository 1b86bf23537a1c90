"""The figures of docs/quota-shares.md, and what they must not fall below."""

from __future__ import annotations

import pytest

from tests.bench.quota_shares import (
    CONTENDERS,
    DOCUMENT,
    PLOT,
    SCENARIOS,
    TICKS,
    Outcome,
    document,
    run_all,
)
from tests.bench.quota_shares_plot import bars

Outcomes = dict[tuple[str, int], list[Outcome]]

STATIC, CKAFKA, WATERFILL, KNOWN = range(len(CONTENDERS))

SERVED_MIN = {
    ("one hot node", 5): 99.5,
    ("one hot node", 30): 99.5,
    ("the hot node moves, 30 s", 5): 96,
    ("the hot node moves, 5 s", 30): 82,
    ("on and off, 3 s", 5): 62,
    ("one hot, one idle, pulses", 10): 92,
    ("one hot, one idle, pulses", 30): 83,
    ("lognormal, 5 s", 30): 82,
}
"""Percent, of waterfill."""


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return run_all()


def test_waterfill_never_passes_the_limit_and_serves_most_of_it(outcomes: Outcomes) -> None:
    assert outcomes.keys() == SERVED_MIN.keys()
    for scenario, found in outcomes.items():
        outcome = found[WATERFILL]
        assert outcome.over == found[STATIC].over == 0
        assert outcome.peak <= 1
        assert outcome.served >= SERVED_MIN[scenario]
        assert outcome.served > found[STATIC].served
        assert outcome.ticks <= 2


def test_ckafka_passes_the_limit_as_described(outcomes: Outcomes) -> None:
    pulses = outcomes["one hot, one idle, pulses", 30][CKAFKA]
    assert 0.5 < pulses.over < 10
    assert 1.2 < pulses.peak < 1 + 0.1 * 29
    assert outcomes["one hot node", 5][CKAFKA].served > 99


def test_static_shares_leave_most_of_the_limit_unused(outcomes: Outcomes) -> None:
    assert outcomes["one hot node", 5][STATIC].served < 30
    assert outcomes["one hot node", 5][STATIC].ticks == TICKS


def test_the_page_is_what_the_script_writes(outcomes: Outcomes) -> None:
    assert document(outcomes) == DOCUMENT.read_text()
    assert PLOT.read_text().startswith("<svg")
    assert all(
        f"{scenario.name}, {scenario.nodes} nodes" in PLOT.read_text() for scenario in SCENARIOS
    )


def test_bars_are_as_long_as_their_values() -> None:
    chart = bars(["a", "b"], {"x & y": [100.0, 50.0]})
    assert 'width="420.0"' in chart
    assert 'width="210.0"' in chart
    assert "x &amp; y" in chart
