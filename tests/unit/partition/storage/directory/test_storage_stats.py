from pathlib import Path

from tests.support.log_batches import append, make_batch
from tests.unit.partition.storage.directory.test_log_manager import Node, topic


def test_stats_are_sums_over_the_usable_logs(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    for partition in range(3):
        log, _ = node.manager.open_log(topic(), partition)
        append(log, make_batch(), make_batch(), epoch=0)
    stats = node.manager.stats()
    assert (stats.logs, stats.segments, stats.records_not_synced) == (3, 3, 6)
    assert stats.size_bytes == 6 * len(make_batch())
    assert (stats.offline_dirs, stats.stalled_dirs, stats.unusable_logs) == (0, 0, 0)
    assert stats.open_files == 3
    node.manager.close()
