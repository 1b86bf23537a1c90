from prometheus_client import CollectorRegistry

from highwater.partition.metrics.cleaner import CleanerCollector
from highwater.partition.storage.cleaning.cleaner import CleanerStats


def test_every_figure_is_collected():
    stats = CleanerStats(
        runs=1,
        failed_runs=2,
        aborted_runs=3,
        bytes_before=400,
        bytes_after=50,
        records_dropped=6,
        uncleanable=7,
        dirty_ratio_max=0.8,
    )
    registry = CollectorRegistry()
    registry.register(CleanerCollector(stats))

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"highwater_partition_cleaner_{name}")

    assert [value(f"{name}_total") for name in ("runs", "failed_runs", "aborted_runs")] == [1, 2, 3]
    assert value("bytes_before_total") == 400
    assert value("bytes_after_total") == 50
    assert value("dropped_records_total") == 6
    assert value("uncleanable_partitions") == 7
    assert value("max_dirty_ratio") == 0.8
    stats.runs += 1
    assert value("runs_total") == 2
