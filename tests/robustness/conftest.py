"""Clusters that robustness tests may break: one for each test, never the session's shared one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, make_cluster
from tests.support.embedded_cluster import raise_open_files_limit

_OPEN_FILES = 16_384
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignores warnings of third-party clients."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The run's seed, given or drawn; printed, so that a failing run can be repeated."""
    given: int | None = request.config.getoption("--seed")
    chosen = random.SystemRandom().randrange(1 << 32) if given is None else given
    print(f"\nrepeat with --seed {chosen}")
    return chosen


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[Callable[[str], Cluster]]:
    """Starts clusters by mode and stops them at the end of the test."""
    # Brokers inherit the limit: they have to hold as many connections as a test opens.
    raise_open_files_limit(_OPEN_FILES)
    started: list[Cluster] = []

    def start(mode: str) -> Cluster:
        made = make_cluster(mode, tmp_path / mode)
        started.append(made)
        made.start()
        return made

    yield start
    for made in started:
        made.stop()
