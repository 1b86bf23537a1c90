"""What two brokers or tools did in turns, the ratio of the two, and tables of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from tests.bench.document import machine, markdown_table, with_target
from tests.bench.peer import Peer
from tests.bench.peer_kafka import KAFKA

HEADER = ["row", "broker or tool", "unit", "median (range)", "ratio"]
_WHOLE_FROM = 100.0
"""Values from here on are shown without decimals."""

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The measured values of one broker or tool, in the order of the pairs."""

    name: str
    version: str
    values: tuple[float, ...]

    @property
    def shown(self) -> str:
        """Median and range."""
        low, high = min(self.values), max(self.values)
        return f"{_shown(median(self.values))} ({_shown(low)}-{_shown(high)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One row of one pair. `beside` is what ran in turns with `ours`, None if nothing did."""

    row: str
    unit: str
    ours: Series
    beside: Series | None = None
    less_is_better: bool = False
    target: float | None = None

    @property
    def ratio(self) -> float | None:
        """The median over all pairs of values; above 1 ours is better, whatever the unit is."""
        if self.beside is None:
            return None
        pairs = zip(self.ours.values, self.beside.values, strict=True)
        if self.less_is_better:
            return median(other / own for own, other in pairs)
        return median(own / other for own, other in pairs)


def pair_up(names: Sequence[str]) -> list[list[str]]:
    """The brokers that run at the same time: each with Kafka, if that is among the names."""
    ours = [name for name in names if name != KAFKA]
    if KAFKA not in names:
        return [[name] for name in ours]
    return [[name, KAFKA] for name in ours] or [[KAFKA]]


def in_turns(items: Sequence[T], pairs: int, run: Callable[[T], V]) -> list[tuple[V, ...]]:
    """Runs each item `pairs` times, the order swapped from pair to pair; returns their values."""
    found: list[list[V]] = [[] for _ in items]
    numbers = range(len(items))
    for pair in range(pairs):
        for number in numbers if pair % 2 == 0 else reversed(numbers):
            found[number].append(run(items[number]))
    return [tuple(values) for values in found]


def compare(
    row: str,
    unit: str,
    peers: Sequence[Peer],
    values: Sequence[tuple[float, ...]],
    *,
    less_is_better: bool = False,
    targets: Mapping[str, float] | None = None,
) -> Comparison:
    """The comparison of one pair of `pair_up`, or of one broker alone."""
    series = [
        Series(name=peer.name, version=peer.version(), values=each)
        for peer, each in zip(peers, values, strict=True)
    ]
    return Comparison(
        row=row,
        unit=unit,
        ours=series[0],
        beside=series[1] if len(series) > 1 else None,
        less_is_better=less_is_better,
        target=(targets or {}).get(peers[0].name),
    )


def table(comparisons: Sequence[Comparison]) -> list[list[str]]:
    """One line for each series; see HEADER."""
    lines = []
    for each in comparisons:
        ratio = "-" if each.ratio is None else with_target(each.ratio, each.target)
        lines.append([each.row, each.ours.name, each.unit, each.ours.shown, ratio])
        if each.beside is not None:
            name = f"{each.beside.name} beside {each.ours.name}"
            lines.append([each.row, name, each.unit, each.beside.shown, "-"])
    return lines


def markdown(command: str, comparisons: Sequence[Comparison], notes: Sequence[str]) -> str:
    """A section of docs/benchmarks.md."""
    found = [series for each in comparisons for series in (each.ours, each.beside) if series]
    versions = {each.name: each.version for each in found}
    items = [*machine(), *(f"{name}: {version}" for name, version in versions.items()), *notes]
    parts = [f"Command: `{command}`", "", *(f"- {item}" for item in items)]
    return "\n".join([*parts, "", *markdown_table(HEADER, table(comparisons))]) + "\n"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.3g}"
