"""Fixtures of the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.topics import unique_name

_HERE = Path(__file__).parent
_TIMEOUT_S = 150  # A rebalance may take a session timeout, and the first test starts a broker.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets every test's timeout, and ignores warnings of third-party clients."""
    for item in items:
        if _HERE in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
            item.add_marker(pytest.mark.filterwarnings("default"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name for one test; the topic does not exist yet."""
    return unique_name(request.node.originalname.removeprefix("test_"))


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group name for one test."""
    return unique_name(request.node.originalname.removeprefix("test_"))
