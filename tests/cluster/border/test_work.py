"""What exists in another instance costs what exists nowhere costs: the same functions run for both.

So no client can tell the one from the other by time. Time itself is not measured: it tells little on a
busy machine, and a lookup more tells everything.
"""

from __future__ import annotations

import time
from functools import partial

import pytest

from highwater.kafka.api_keys import ApiKey
from tests.cluster.border.crossing import Border, like
from tests.cluster.border.owner import Owner
from tests.cluster.border.requests import Served, newest_of_each_shape
from tests.cluster.instances import InstanceCluster

ROUNDS = 4
"""The cluster has work of its own, too, but not in every round of one kind and in none of the other."""
IDLE_S = 3.0
QUICKLY = {
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH),
    *(ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
}
NEWEST = sorted(
    (served for served in newest_of_each_shape() if served.newest), key=lambda one: one.api_key
)


@pytest.fixture(scope="module")
def idle(tenants: InstanceCluster, owners: dict[str, Owner]) -> frozenset[str]:
    """What the cluster does by itself."""
    for owner in owners.values():
        owner.allow_everything()
        owner.make()
    return tenants.functions_called(lambda: time.sleep(IDLE_S))


@pytest.mark.parametrize(("stranger", "other"), [("red", "blue")])
@pytest.mark.parametrize(
    "served",
    [
        pytest.param(one, id=str(one), marks=() if one.api_key in QUICKLY else pytest.mark.full)
        for one in NEWEST
    ],
)
def test_the_same_is_done(
    border: Border,
    owners: dict[str, Owner],
    tenants: InstanceCluster,
    idle: frozenset[str],
    other: str,
    served: Served,
) -> None:
    border.ask_about(served, like(owners[other].make().classic))  # What is loaded at first use is.
    found: dict[str, list[frozenset[str]]] = {"theirs": [], "nobody's": []}
    for number in range(ROUNDS):
        names = owners[other].make().classic
        asked = {"theirs": names, "nobody's": like(names)}
        # In turns, so that what happens every half second falls into both.
        for kind in sorted(asked, reverse=number % 2 == 1):
            called = tenants.functions_called(partial(border.ask_about, served, asked[kind]))
            found[kind].append(called - idle)
    theirs, nobodys = found.values()
    assert frozenset.intersection(*theirs) - frozenset.union(*nobodys) == set()
    assert frozenset.intersection(*nobodys) - frozenset.union(*theirs) == set()
