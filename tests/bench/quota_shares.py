"""Simulates policies that share an instance's limit, and writes docs/quota-shares.md and a plot.

`python -m tests.bench.quota_shares`. Ticks of a second; a node serves what it is asked for up to its
share, which follows the reports of the tick before. Requests that are not served are lost, not repeated.
The policies are the service's own (`highwater.quota.core.policies`); random numbers are seeded, so that the
same code gives the same figures.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import NodeId
from highwater.quota.core.policies.ckafka import CkafkaPolicy
from highwater.quota.core.policies.port import Demand, Policy, Sharing
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.core.policies.waterfill import WaterfillPolicy
from tests.bench.quota_shares_plot import bars
from tests.support.maven import REPOSITORY

LIMIT: Final = 1_000_000
TICKS: Final = 600
SEED: Final = 20_251_127
DOCUMENT: Final = REPOSITORY / "docs" / "quota-shares.md"
PLOT: Final = REPOSITORY / "docs" / "quota-shares.svg"

Load = Callable[[int, int, random.Random], list[float]]
"""(tick, nodes, random numbers) -> what each node is asked for, as parts of the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A load on some nodes."""

    name: str
    nodes: int
    load: Load


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy, and what it learns of the demand."""

    name: str
    policy: Policy
    sees_all: bool = False
    """Whether reports tell the whole demand. Nodes see what they served, and that somebody waits: a
    busy node reports twice of what it served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One contender in one scenario."""

    served: float
    """Of the smaller one of limit and demand, in percent; up to the limit in each tick."""
    over: float
    """Bytes above the limit, in percent of the limit over the whole time."""
    peak: float
    """The busiest tick, as a ratio to the limit."""
    ticks: int
    """Until the first one that serves 90 %; TICKS for never."""


def _hot(_tick: int, nodes: int, _random: random.Random) -> list[float]:
    return [0.9] + [0.01] * (nodes - 1)


def _moving(every: int) -> Load:
    def load(tick: int, nodes: int, _random: random.Random) -> list[float]:
        hot = tick // every % nodes
        return [0.9 if node == hot else 0.01 for node in range(nodes)]

    return load


def _on_and_off(tick: int, nodes: int, _random: random.Random) -> list[float]:
    """Each node is busy for three ticks, then idle for three; every second one begins idle."""
    return [0.5 if (tick // 3 + node) % 2 == 0 else 0.0 for node in range(nodes)]


def _pulses(_tick: int, nodes: int, numbers: random.Random) -> list[float]:
    """One busy node, one that is idle, and short pulses on all others."""
    others = [0.2 if numbers.random() < 0.05 else 0.0 for _ in range(nodes - 2)]
    return [0.8, 0.0, *others]


def _uneven() -> Load:
    drawn: list[float] = []

    def load(tick: int, nodes: int, numbers: random.Random) -> list[float]:
        if tick % 5 == 0:
            drawn[:] = [numbers.lognormvariate(0, 1.5) / nodes / 2 for _ in range(nodes)]
        return list(drawn)

    return load


SCENARIOS: Final = (
    Scenario(name="one hot node", nodes=5, load=_hot),
    Scenario(name="one hot node", nodes=30, load=_hot),
    Scenario(name="the hot node moves, 30 s", nodes=5, load=_moving(30)),
    Scenario(name="the hot node moves, 5 s", nodes=30, load=_moving(5)),
    Scenario(name="on and off, 3 s", nodes=5, load=_on_and_off),
    Scenario(name="one hot, one idle, pulses", nodes=10, load=_pulses),
    Scenario(name="one hot, one idle, pulses", nodes=30, load=_pulses),
    Scenario(name="lognormal, 5 s", nodes=30, load=_uneven()),
)

CONTENDERS: Final = (
    Contender(name="static", policy=StaticPolicy()),
    Contender(name="ckafka", policy=CkafkaPolicy()),
    Contender(name="waterfill", policy=WaterfillPolicy()),
    Contender(name="waterfill, all demand known", policy=WaterfillPolicy(), sees_all=True),
)


def simulate(scenario: Scenario, contender: Contender) -> Outcome:
    """One run of TICKS ticks."""
    numbers = random.Random(SEED)
    ids = [NodeId(number + 1) for number in range(scenario.nodes)]
    leaders = dict.fromkeys(ids, 10)
    shares = contender.policy.share(Sharing(limit=LIMIT, leaders=leaders))
    useful = possible = above = peak = 0.0
    first = TICKS
    for tick in range(TICKS):
        asked = [part * LIMIT for part in scenario.load(tick, scenario.nodes, numbers)]
        served = [min(one, shares[node]) for node, one in zip(ids, asked, strict=True)]
        total, could = sum(served), min(LIMIT, sum(asked))
        useful += min(total, could)
        possible += could
        above += max(0.0, total - LIMIT)
        peak = max(peak, total / LIMIT)
        if could and first == TICKS and total >= 0.9 * could:
            first = tick
        demands = {
            node: _reported(got, wanted, sees_all=contender.sees_all)
            for node, got, wanted in zip(ids, served, asked, strict=True)
        }
        shares = contender.policy.share(Sharing(limit=LIMIT, leaders=leaders, demands=demands))
    return Outcome(
        served=100 * useful / possible,
        over=100 * above / (LIMIT * TICKS),
        peak=peak,
        ticks=first,
    )


def _reported(served: float, asked: float, *, sees_all: bool) -> Demand:
    if asked <= served:
        return Demand(served=served)
    return Demand(served=served, held=asked - served if sees_all else served)


def run_all() -> dict[tuple[str, int], list[Outcome]]:
    """All scenarios by name and nodes, each with an outcome of each contender."""
    return {
        (scenario.name, scenario.nodes): [simulate(scenario, each) for each in CONTENDERS]
        for scenario in SCENARIOS
    }


def table(outcomes: dict[tuple[str, int], list[Outcome]]) -> list[str]:
    """The lines of a Markdown table."""
    names = " | ".join(each.name for each in CONTENDERS)
    lines = [f"| load | nodes | {names} |", "|---|--:|" + "---|" * len(CONTENDERS)]
    for (name, nodes), found in outcomes.items():
        cells = " | ".join(_cell(each) for each in found)
        lines.append(f"| {name} | {nodes} | {cells} |")
    return lines


def _cell(outcome: Outcome) -> str:
    text = f"{outcome.served:.1f} %"
    if outcome.ticks not in (0, TICKS):
        text += f", {outcome.ticks} s"
    elif outcome.ticks == TICKS:
        text += ", never"
    if outcome.over >= 0.05:
        text += f"; **{outcome.over:.1f} %** over, peak {outcome.peak:.2f}"
    return text


def document(outcomes: dict[tuple[str, int], list[Outcome]]) -> str:
    """The page."""
    return "\n".join(
        ["<!-- Written by `python -m tests.bench.quota_shares`. -->", *_TEXT, *table(outcomes), ""]
    )


_TEXT: Final[Sequence[str]] = (
    "# How policies share a limit",
    "",
    f"A simulation of {TICKS} ticks of a second, with the policies that the quota service has",
    "([traffic-limits.md](traffic-limits.md)). Each cell has what was served of the smaller one of limit and demand, the seconds",
    "until 90 % were served for the first time, and, if anything passed above the limit, how much of the limit",
    "that was and the busiest tick. Nodes report that somebody waits, not how much; the last column shows",
    "what a perfect report would bring. Requests that are not served are lost, which clients' are not.",
    "",
    "![What is served](quota-shares.svg)",
    "",
)


def main() -> None:
    """Writes both files."""
    outcomes = run_all()
    DOCUMENT.write_text(document(outcomes))
    rows = {
        f"{name}, {nodes} nodes": [each.served for each in found]
        for (name, nodes), found in outcomes.items()
    }
    PLOT.write_text(bars([each.name for each in CONTENDERS], rows))


if __name__ == "__main__":
    main()
