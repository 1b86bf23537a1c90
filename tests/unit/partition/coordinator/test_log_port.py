"""The tests' log implements the port, as the real one does."""

import inspect

from highwater.partition.coordinator.log_port import CoordinatorLog
from tests.unit.partition.coordinator.memory_log import MemoryLog


def test_the_log_in_memory_has_the_ports_methods():
    for name, method in inspect.getmembers(CoordinatorLog, inspect.isfunction):
        if name.startswith("_"):
            continue
        fake = inspect.signature(getattr(MemoryLog, name))
        assert list(fake.parameters) == list(inspect.signature(method).parameters), name
