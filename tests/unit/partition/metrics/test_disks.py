from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from highwater.partition.core.disk_marks import DiskState
from highwater.partition.metrics.disks import DiskCollector


def test_each_directory_has_its_state():
    guard = SimpleNamespace(states={"/a": DiskState.OPEN, "/b": DiskState.NOTHING})
    registry = CollectorRegistry()
    registry.register(DiskCollector(guard))
    name = "highwater_partition_disk_nearly_full"
    assert registry.get_sample_value(name, {"log_dir": "/a"}) == 0
    assert registry.get_sample_value(name, {"log_dir": "/b"}) == 2
