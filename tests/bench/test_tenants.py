"""The benchmark of tenants: its rows, how they are judged, and how a row is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest

from tests.bench import load
from tests.bench.tenants import (
    PLANS,
    QUICK,
    QUIET,
    Lengths,
    Plan,
    Row,
    Side,
    Window,
    allowed_us,
    measure,
    select,
    table,
)


def row(alone: float, beside: float, *, judged: bool = True) -> Row:
    return Row(
        name="neighbour-logins",
        workload=QUIET,
        judged=judged,
        alone=[Window(value=100, p99_us=alone)],
        beside=[Window(value=150, p99_us=beside)],
    )


def test_a_neighbour_may_cost_half_as_much_again_or_a_millisecond() -> None:
    assert allowed_us(1_000) == 2_000
    assert allowed_us(4_000) == 6_000
    assert not row(1_000, 2_000).missed
    assert row(1_000, 2_001).missed
    assert not row(1_000, 9_000, judged=False).missed


def test_a_line_says_what_was_wanted_where_something_was() -> None:
    (line,) = table([row(1_000, 2_500)])
    assert line[:5] == ["neighbour-logins", QUIET.name, "100 us p50", "150 us p50", "1.50"]
    assert line[5:] == ["1,000", "2,500", "< 2,000: missed"]
    assert table([row(1_000, 1_500)])[0][-1] == "< 2,000: reached"
    assert table([row(1_000, 2_500, judged=False)])[0][-1] == ""


def test_the_rows() -> None:
    names = [plan.name for plan in PLANS]
    assert len(set(names)) == len(names)
    judged = {plan.name for plan in PLANS if plan.judged}
    kinds = ("produce", "connections", "logins", "metadata")
    assert judged == {f"neighbour-{kind}" for kind in kinds}
    assert [p.name for p in select(["sasl/*"])] == [
        "sasl/produce-200b-50x8",
        "sasl/produce-16k-10x8",
    ]
    assert len(select(["instances-10/*", "instances-1000/*"])) == 4
    with pytest.raises(ValueError, match="no row is named like 'nothing'"):
        select(["nothing"])


def test_pairs_are_measured_in_turns_with_noise_beside_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet = load.Target(bootstrap="h:1", topic="t")
    log: list[str] = []

    @contextmanager
    def noise() -> Iterator[None]:
        log.append("noise")
        yield
        log.append("silence")

    def run(_workload: object, target: load.Target, **lengths: float) -> SimpleNamespace:
        assert target is quiet
        log.append("warm" if lengths["warmup_seconds"] == 0 else "run")
        return SimpleNamespace(value=lambda _metric: float(len(log)), latency_us={"p99": 5.0})

    monkeypatch.setattr(load, "run", run)

    def sides(stack: ExitStack, topic: str) -> tuple[Side, Side]:
        stack.callback(log.append, "ended")
        assert topic == "bench-a-b"
        return Side(target=quiet), Side(target=quiet, noise=noise)

    plan = Plan(name="a/b", workload=QUIET, sides=sides)
    found = measure(plan, Lengths(pairs=2, seconds=1), lambda _line: None)
    beside = ["noise", "run", "silence"]
    assert log == ["warm", "run", *beside, *beside, "run", "ended"]
    assert [one.value for one in found.alone] == [2.0, 9.0]
    assert QUICK.pairs == 1
