"""Fixtures of the cluster tests: each has a cluster of its own, since it stops and breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.runner import Up

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(150))
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    """A running cluster of the mode that the test is parametrized with."""
    made = Up(request.param, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()
