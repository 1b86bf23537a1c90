"""No request of an instance's client reaches, or tells, what another instance has.

Every version of every API that is served; the answers are compared with those about names that nobody has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest

from highwater.kafka.api_keys import ApiKey
from tests.cluster.border.crossing import Border
from tests.cluster.border.owner import Owner
from tests.cluster.border.requests import Served, all_served, newest_of_each_shape
from tests.cluster.instances import InstanceCluster

ACROSS = [("red", "blue"), ("red", "default"), ("default", "blue")]
"""(the client's instance, the other instance)"""

QUICKLY_MIXED = {
    *(ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN),
    *(ApiKey.TXN_OFFSET_COMMIT, ApiKey.WRITE_TXN_MARKERS, ApiKey.CONSUMER_GROUP_HEARTBEAT),
}
"""APIs whose requests name the most different things."""
QUICKLY_ODD = {
    *(ApiKey.CREATE_TOPICS, ApiKey.OFFSET_FETCH, ApiKey.INIT_PRODUCER_ID),
    *(ApiKey.CREATE_ACLS, ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.INCREMENTAL_ALTER_CONFIGS),
}
"""One for each way in which names are kept."""


def crossings(
    served: Iterable[Served] | None = None, quick: Collection[ApiKey] | None = None
) -> list[object]:
    """Outside `make full` the newest versions between two instances, of all APIs or of those."""
    return [
        pytest.param(
            *pair,
            each,
            id=f"{pair[0]}-{pair[1]}-{each}",
            marks=()
            if each.newest and pair == ACROSS[0] and (quick is None or each.api_key in quick)
            else pytest.mark.full,
        )
        for pair in ACROSS
        for each in (all_served() if served is None else served)
    ]


SHAPES = sorted(newest_of_each_shape(), key=lambda served: (served.api_key, served.version))


@pytest.mark.parametrize(("stranger", "other", "served"), crossings())
def test_nothing_crosses(
    border: Border, owners: dict[str, Owner], other: str, served: Served
) -> None:
    """All names are the other instance's; lists and strings are null or empty; and wildcards."""
    owned = owners[other].make()
    border.cross(served, border.probes(served, owned), owned)


@pytest.mark.parametrize(("stranger", "other", "served"), crossings(SHAPES, QUICKLY_MIXED))
def test_one_name_of_another_instance_among_the_own(
    border: Border, owners: dict[str, Owner], stranger: str, other: str, served: Served
) -> None:
    """A request that is good but for one name gets further than one that is all wrong."""
    owned = owners[other].make()
    border.cross(served, border.mixed(served, owned, owners[stranger]), owned)


@pytest.mark.parametrize(("stranger", "other", "served"), crossings(SHAPES, QUICKLY_ODD))
def test_no_name_leads_into_another_instance(
    border: Border, owners: dict[str, Owner], other: str, served: Served
) -> None:
    """Names with separators and control characters, made as names might be made inside."""
    owned = owners[other].make()
    border.cross(served, border.odd(served, owned), owned)


def test_all_is_as_it_was(owners: dict[str, Owner], tenants: InstanceCluster) -> None:
    """What the owners made for the tests above is still there, once nothing is under way any more."""
    for owner in owners.values():
        owner.make()
        there = {topic.name: topic.topic_id for topic in tenants.topics_of(owner.instance)}
        assert {owned.classic.topic: owned.classic.topic_id for owned in owner.all}.items() <= (
            there.items()
        )
