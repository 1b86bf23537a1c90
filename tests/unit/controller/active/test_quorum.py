"""What the active controller tells of all controllers and members."""

from collections.abc import AsyncIterator

import pytest

from highwater.controller.active.active import ActiveController
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.service import ControllerService
from highwater.controller.store import keys
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import Delete, Put
from highwater.metadata.controller_client import ControllerClient
from tests.support.controller import endpoints_of, node, started


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(exclusive=False)


@pytest.fixture
async def service(store: MemoryStore) -> AsyncIterator[ControllerService]:
    made = await started(store=store, controller_id="dc-1")
    yield made
    await made.stop()


@pytest.fixture
async def active(service: ControllerService) -> ActiveController:
    return await service.wait_active(5.0)


async def stand(store: MemoryStore, key: str, address: str) -> None:
    value = keys.encode({"address": address})
    await store.txn((), (Put(key=keys.ELECTION + key, value=value),))


async def test_candidates_are_voters_and_the_oldest_one_leads(
    active: ActiveController, store: MemoryStore
) -> None:
    await stand(store, "dc-2-3f", "two:1")
    await stand(store, "dc-0-4a", "zero:1")
    told = await active.quorum.describe()
    assert told.voters[0].replica_id == told.leader_id
    assert [(one.name, one.address) for one in told.voters[:1]] == [("dc-1", "in-process")]
    assert {one.name: one.address for one in told.voters[1:]} == {
        "dc-2": "two:1",
        "dc-0": "zero:1",
    }
    assert told.controller_epoch == active.image.controller_epoch
    assert told.revision == active.image.revision


async def test_a_controller_that_was_just_started_again_is_one_voter(
    active: ActiveController, store: MemoryStore
) -> None:
    await stand(store, "dc-2-ff", "former:1")
    await stand(store, "dc-2-0a", "present:1")
    told = await active.quorum.describe()
    assert [one.address for one in told.voters] == ["in-process", "present:1"]


async def test_who_does_not_stand_any_more_tells_nothing(
    active: ActiveController, store: MemoryStore
) -> None:
    mine = (await store.range(keys.ELECTION)).entries
    await store.txn((), [Delete(key=entry.key) for entry in mine])
    with pytest.raises(NotActiveError):
        await active.quorum.describe()


async def test_the_only_candidate_of_an_exclusive_store() -> None:
    service = await started(controller_id="dc-1")
    told = await (await service.wait_active(5.0)).quorum.describe()
    assert [one.name for one in told.voters] == ["dc-1"]
    await service.stop()


async def test_a_node_with_the_newest_revision_is_caught_up(
    service: ControllerService, active: ActiveController
) -> None:
    joined = node(ControllerClient(endpoints_of(service)), 1)
    await joined.register()
    await joined.beat(active.image.revision)
    [told] = (await active.quorum.describe()).observers
    assert told.caught_up_ms == told.reported_ms > 0
