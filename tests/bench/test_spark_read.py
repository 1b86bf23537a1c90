"""Which brokers run side by side, and their table; the reads themselves need Spark."""

from __future__ import annotations

from tests.bench.spark_read import DEFAULT_PEERS, HEADER, TARGETS, Result, markdown, pair_up, table


def result(name: str, *reads_s: float) -> Result:
    return Result(
        name=name, version=f"version of {name}", records=1_000, value_bytes=10**9, load_s=1.0,
        reads_s=reads_s,
    )  # fmt: skip


def test_each_of_ours_runs_beside_kafka() -> None:
    assert pair_up(DEFAULT_PEERS.split(",")) == [[name, "kafka"] for name in TARGETS]
    assert pair_up(["kafka", "services"]) == [["services", "kafka"]]
    assert pair_up(["services", "embedded"]) == [["services"], ["embedded"]]
    assert pair_up(["kafka"]) == [["kafka"]]


def test_ratios_are_those_of_reads_in_turn_and_compared_with_the_targets() -> None:
    pairs = [
        # Slow and fast at the same time as Kafka: the ratio of the medians would be 0.5.
        [result("combined", 1.0, 2.0, 4.0), result("kafka", 1.0, 1.0, 4.0)],
        [result("services", 2.0, 2.0, 2.0), result("kafka", 1.0, 1.0, 1.0)],
        [result("external:h:1", 2.0)],
    ]
    lines = table(pairs)
    assert {len(line) for line in lines} == {len(HEADER)}
    assert [(line[0], line[4]) for line in lines] == [
        ("combined", "1.00 (>= 0.95: reached)"),
        ("kafka beside combined", "-"),
        ("services", "0.50 (>= 0.7: missed)"),
        ("kafka beside services", "-"),
        ("external:h:1", "-"),
    ]
    assert lines[0][1:4] == ["500", "250", "1,000"]
    text = markdown("c", pairs)
    assert "- kafka: version of kafka" in text
    assert "1,000 records with 1.00 GB of values in 12 partitions, 3 measured reads" in text
