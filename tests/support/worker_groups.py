"""Which tests one worker of `-n 2 --dist loadgroup` runs, because they share what starts slowly.

Not by the mark `xdist_group`: pytest-xdist 3.8 hands it on in the tests' ids, in a way that
pytest 9.2 no longer reads. What follows from a test's id alone needs no mark.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

CLUSTERS = frozenset({"nodes3", "gateways2", "combined3", "grpcio3"})
"""Clusters of several processes: all tests on one of them share it."""

HEAVY = "heavy"
_HEAVY_FOLDERS = frozenset({"spark", "docker"})
"""Folders whose tests share a session of Spark or a Docker engine, and load a small machine by
themselves: side by side they would pass their time limits.

They have few tests, which take long, so they begin: the run would otherwise end with one worker."""


def group_of(nodeid: str) -> str:
    """The group of a test, for example of `tests/spark/test_load_job.py::test_rows[nodes3-raw]`."""
    file, _, test = nodeid.partition("::")
    folder = PurePosixPath(file).parent
    if _HEAVY_FOLDERS.intersection(folder.parts):
        return HEAVY
    values = test.partition("[")[2].removesuffix("]").split("-")
    for cluster in CLUSTERS.intersection(values):
        return cluster
    return str(folder)


class ByGroup(LoadScopeScheduling):  # type: ignore[misc] # Has no types.
    """Gives a whole group to a worker: the heavy one, then those with the most tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if HEAVY in self.workqueue:
            self.workqueue.move_to_end(HEAVY, last=False)
        super()._assign_work_unit(node)
