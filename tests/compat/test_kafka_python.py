"""kafka-python's own integration tests, from its sdist, against our brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.kafka_python.modes import run_mode
from tests.compat.kafka_python.suite import SHARE, SUITE_TIMEOUT_S

_START_S = 120
"""For the cluster, beside the suite's own limit."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients,
    pytest.mark.timeout(SUITE_TIMEOUT_S + _START_S),
]


def test_some_of_each_module(tmp_path: Path) -> None:
    run = run_mode("embedded", tmp_path, SHARE)
    assert run.good, run.report()
    assert len(run.verdict.passed) == len(SHARE)


@pytest.mark.full
@pytest.mark.parametrize(("mode", "passed_min"), [("embedded", 66), ("nodes3", 63)])
def test_the_whole_suite(tmp_path: Path, mode: str, passed_min: int) -> None:
    run = run_mode(mode, tmp_path)
    assert run.good, run.report()
    assert len(run.verdict.passed) >= passed_min
