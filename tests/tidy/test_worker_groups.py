from collections import OrderedDict

import pytest

from tests.support.worker_groups import HEAVY, ByGroup, group_of

PROTOCOL = "tests/conformance/protocol/test_produce.py"
LOAD = "tests/spark/test_load_job.py"


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        (f"{PROTOCOL}::test_acks[embedded-1]", "tests/conformance/protocol"),
        (f"{PROTOCOL}::test_acks[1-nodes3]", "nodes3"),
        ("tests/conformance/test_kcat.py::test_lists[nodes3]", "nodes3"),
        ("tests/conformance/test_kcat.py::test_lists[embedded]", "tests/conformance"),
        (f"{LOAD}::test_rows[nodes3-raw]", HEAVY),
        (f"{LOAD}::test_rows[embedded-raw]", HEAVY),
        ("tests/docker/test_compose.py::test_it_starts", HEAVY),
        ("tests/compat/test_verdict.py::test_a_report_is_read[nodes30]", "tests/compat"),
    ],
)
def test_who_shares_a_cluster_shares_a_worker(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


class Worker:
    """Notes the indices of the tests that it is sent."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent.append(indices)


def test_the_heavy_group_begins() -> None:
    tests = ["tests/compat/test_a.py::test_a", "tests/docker/test_b.py::test_b", f"{LOAD}::test_c"]
    schedule, worker = ByGroup.__new__(ByGroup), Worker()
    schedule.workqueue = OrderedDict()
    for test in tests:
        schedule.workqueue.setdefault(group_of(test), {})[test] = False
    schedule.assigned_work, schedule.registered_collections = {}, {worker: tests}
    while schedule.workqueue:
        schedule._assign_work_unit(worker)
    assert worker.sent == [[1, 2], [0]], "one worker has what would load the machine together"
