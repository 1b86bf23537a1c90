"""A cluster of three instances for the tests of the border between them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.border.crossing import Border
from tests.cluster.border.owner import LONG_MS, Owner
from tests.cluster.instances import InstanceCluster

GATEWAY = {
    "authorizer": "acl",
    "allow_everyone_if_no_acl_found": True,
    "old_message_formats": True,
}
"""So that ACLs, and all versions, are served."""
PARTITION = {"group_consumer_max_session_timeout_ms": LONG_MS}
"""So that members stay that say nothing."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves older versions to one node: what they add is decoded before it is known who leads what."""
    older = [
        item
        for item in items
        if (params := getattr(getattr(item, "callspec", None), "params", {})).get("tenants") == 2
        and "served" in params
        and not params["served"].newest
    ]
    if older:
        config.hook.pytest_deselected(items=older)
        items[:] = [item for item in items if item not in set(older)]


@pytest.fixture(
    scope="module",
    params=[1, pytest.param(2, marks=pytest.mark.full)],
    ids=["embedded", "combined"],
)
def tenants(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstanceCluster]:
    directory = tmp_path_factory.mktemp("border")
    with InstanceCluster(directory, request.param, gateway=GATEWAY, partition=PARTITION) as made:
        yield made


@pytest.fixture(scope="module")
def owners(tenants: InstanceCluster) -> dict[str, Owner]:
    return {name: Owner(tenants, name) for name in ("default", "red", "blue")}


@pytest.fixture
def border(owners: dict[str, Owner], tenants: InstanceCluster, stranger: str, other: str) -> Border:
    for owner in owners.values():
        owner.allow_everything()
        owner.make_room()
    return Border(tenants, stranger, owners[other], owners[stranger].known)
