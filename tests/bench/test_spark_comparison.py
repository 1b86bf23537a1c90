"""Which brokers run side by side, the order of the runs, ratios, and their tables."""

from __future__ import annotations

from tests.bench.spark_comparison import (
    HEADER,
    Comparison,
    Series,
    in_turns,
    markdown,
    pair_up,
    table,
)


def series(name: str, *values: float) -> Series:
    return Series(name=name, version=f"version of {name}", values=values)


def test_each_of_ours_runs_beside_kafka() -> None:
    names = ["combined", "services", "kafka"]
    assert pair_up(names) == [["combined", "kafka"], ["services", "kafka"]]
    assert pair_up(["kafka", "services"]) == [["services", "kafka"]]
    assert pair_up(["services", "embedded"]) == [["services"], ["embedded"]]
    assert pair_up(["kafka"]) == [["kafka"]]


def test_the_order_is_swapped_from_pair_to_pair() -> None:
    ran: list[str] = []

    def run(item: str) -> float:
        ran.append(item)
        return float(len(ran))

    assert in_turns(["a", "b"], 3, run) == [(1.0, 4.0, 5.0), (2.0, 3.0, 6.0)]
    assert ran == ["a", "b", "b", "a", "a", "b"]


def test_a_ratio_is_that_of_runs_in_turn_and_above_one_where_ours_is_better() -> None:
    # Slow and fast at the same time as Kafka: the ratio of the medians would be 2.
    ours, theirs = series("combined", 1.0, 2.0, 4.0), series("kafka", 1.0, 1.0, 4.0)
    assert Comparison(row="r", unit="MB/s", ours=ours, beside=theirs).ratio == 1.0
    ours, theirs = series("combined", 50.0), series("kafka", 100.0)
    assert Comparison(row="r", unit="MB/s", ours=ours, beside=theirs).ratio == 0.5
    faster = Comparison(row="r", unit="ms", ours=ours, beside=theirs, less_is_better=True)
    assert faster.ratio == 2.0
    assert Comparison(row="r", unit="ms", ours=ours).ratio is None


def test_targets_are_judged_and_every_series_has_a_line() -> None:
    found = [
        Comparison(
            row="load/delta/lz4", unit="rows/s", target=0.97,
            ours=series("combined", 999.0, 1000.0, 2000.0),
            beside=series("kafka", 1000.0, 1000.0, 1000.0),
        ),
        Comparison(
            row="load/delta/lz4", unit="rows/s", target=0.7,
            ours=series("services", 0.5), beside=series("kafka", 1.0),
        ),
        Comparison(row="read/plain", unit="MB/s", ours=series("external:h:1", 1.0)),
    ]  # fmt: skip
    lines = table(found)
    assert {len(line) for line in lines} == {len(HEADER)}
    assert [(line[1], line[4]) for line in lines] == [
        ("combined", "1.00 (>= 0.97: reached)"),
        ("kafka beside combined", "-"),
        ("services", "0.50 (>= 0.7: missed)"),
        ("kafka beside services", "-"),
        ("external:h:1", "-"),
    ]
    assert lines[0][3] == "1,000 (999-2,000)"
    assert lines[2][3] == "0.5 (0.5-0.5)"
    text = markdown("c", found, ["a note"])
    assert "- kafka: version of kafka\n" in text
    assert "- a note\n" in text
