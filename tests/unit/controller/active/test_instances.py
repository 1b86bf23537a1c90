"""Instances in terms of office, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.active import instances as module
from highwater.controller.active.active import ActiveController
from highwater.controller.core import purge_instances
from highwater.controller.core.outcome import Refusal
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.service import ControllerService
from highwater.controller.store import keys
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import MetadataStore, StoreUnavailableError
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import acl_to_pb
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from tests.support.acls import acl
from tests.support.controller import (
    START_TIMEOUT_S,
    controller_config,
    endpoints_of,
    gateway_state,
    node,
    topic,
)
from tests.support.lasting_store import Lasting
from tests.support.log_batches import ManualClock

SHOP = InstanceId("shop")
DAY_MS = 24 * 3600 * 1000


class WallClock(ManualClock):
    """The wall clock is the test's; durations are real, or leases would never end."""

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


class FakeLog:
    """Keeps the reasons of warnings."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def warning(self, _event: str, *, reason: str) -> None:
        self.reasons.append(reason)


class Terms:
    """Controllers one after the other on one store, whose periodic purges the test makes itself."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = WallClock()
        self.services: list[ControllerService] = []

    async def next(self) -> ActiveController:
        """Ends the present term and begins another one."""
        if self.services:
            await self.services.pop().stop()
        lasting = cast("MetadataStore", Lasting(self.store))
        service = ControllerService(
            controller_config(), store=lasting, clock=self.clock, serve_grpc=False
        )
        self.services.append(service)
        await service.start()
        active = await service.wait_active(START_TIMEOUT_S)
        await active.check_seen(0)
        return active

    async def client(self) -> ControllerClient:
        return ControllerClient(endpoints_of(self.services[-1]))


@pytest.fixture
async def terms(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Terms]:
    monkeypatch.setattr(module, "CHECK_S", 3600.0)
    monkeypatch.setattr(module, "SLICE_PAUSE_S", 0.0)
    made = Terms()
    yield made
    for service in made.services:
        await service.stop()


async def fill(terms: Terms, active: ActiveController, topics: int = 4) -> None:
    """Makes "shop" with topics and ACLs, and a topic of the same name elsewhere."""
    assert await active.instances.create(InstanceState(instance=SHOP)) == (
        None,
        active.image.revision,
    )
    client = await terms.client()
    await node(client, 1).join()
    wanted = [topic(f"t{n}") for n in range(topics)]
    for instance, wishes in (("shop", wanted), ("default", wanted[:1])):
        created = await client.create_topics(
            pb.CreateTopicsRequest(instance=instance, topics=wishes)
        )
        assert [r.error.error_code for r in created.results] == [0] * len(wishes)
    entries = [acl("t", instance=SHOP), acl("t")]
    await client.create_acls(pb.CreateAclsRequest(acls=map(acl_to_pb, entries)))


def names(active: ActiveController) -> list[tuple[str, str]]:
    return sorted((t.instance, t.name) for t in active.image.topics.values())


async def test_an_instance_is_purged_when_its_time_has_come_and_not_before(terms: Terms) -> None:
    active = await terms.next()
    await fill(terms, active)
    before = terms.clock.now_ms
    deleted, revision = await active.instances.delete(SHOP, purge_after_ms=DAY_MS)
    assert isinstance(deleted, InstanceState)
    assert deleted.purge_at_ms == before + DAY_MS
    assert active.image.revision == revision
    terms.clock.now_ms += DAY_MS - 1
    assert await active.instances.purge() == 0
    assert len(names(active)) == 5
    terms.clock.now_ms += 1
    assert await active.instances.purge() == 1
    assert names(active) == [("default", "t0")]
    assert active.image.acls == {acl("t")}
    assert active.image.instances == {}
    left = (await terms.store.range("")).entries
    assert not [entry.key for entry in left if "shop" in entry.key]
    assert len((await terms.store.range(keys.TOPICS)).entries) == 1
    assert len((await terms.store.range(keys.PARTITIONS)).entries) == 1


async def test_a_restored_instance_is_not_purged(terms: Terms) -> None:
    active = await terms.next()
    await fill(terms, active)
    await active.instances.delete(SHOP, purge_after_ms=1_000)
    refusal, _ = await active.instances.restore(SHOP)
    assert refusal is None
    terms.clock.now_ms += DAY_MS
    assert await active.instances.purge() == 0
    assert len(names(active)) == 5
    await active.instances.delete(SHOP, purge_after_ms=1_000)
    terms.clock.now_ms += 1_000
    refusal, _ = await active.instances.restore(SHOP)
    assert isinstance(refusal, Refusal)
    assert "is being purged" in refusal.message


async def test_a_purge_that_stops_anywhere_is_ended_by_the_next_controller(
    terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three slices of topics, one of ACLs, and the instance: the controller ends after each."""
    monkeypatch.setattr(purge_instances, "TOPICS_PER_SLICE", 2)
    active = await terms.next()
    await fill(terms, active, topics=5)
    await active.instances.delete(SHOP, purge_after_ms=0)
    left = [len(names(active))]
    while active.image.instances:
        step = await active.instances._slice()
        assert step is not None
        active = await terms.next()
        left.append(len(names(active)))
    assert left == [6, 4, 2, 1, 1, 1]
    assert active.image.acls == {acl("t")}
    refusal, _ = await active.instances.create(InstanceState(instance=SHOP))
    assert refusal is None
    assert names(active) == [("default", "t0")], "the new one finds nothing of the old one"


async def test_set_and_delete_outlast_their_controller(terms: Terms) -> None:
    active = await terms.next()
    wanted = InstanceState(instance=SHOP, groups_max=4, allowed_networks=("10.0.0.0/8",))
    await active.instances.create(InstanceState(instance=SHOP))
    assert (await active.instances.set(wanted))[0] is None
    active = await terms.next()
    assert active.image.instances == {SHOP: wanted}
    deleted, _ = await active.instances.delete(SHOP, purge_after_ms=DAY_MS)
    active = await terms.next()
    assert active.image.instances == {SHOP: deleted}


async def test_it_purges_by_itself(terms: Terms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_S", 0.01)
    active = await terms.next()
    await fill(terms, active)
    await active.instances.delete(SHOP, purge_after_ms=0)
    async with asyncio.timeout(5):
        while active.image.instances:
            await asyncio.sleep(0.01)
    assert names(active) == [("default", "t0")]


async def test_an_unavailable_store_only_postpones_it(
    terms: Terms, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = await terms.next()
    await fill(terms, active)
    await active.instances.delete(SHOP, purge_after_ms=0)
    tries = 0

    async def commit(_decide: object) -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailableError("away") if tries < 3 else NotActiveError

    monkeypatch.setattr(module, "CHECK_S", 0.0)
    monkeypatch.setattr(active._writer, "commit", commit)
    with pytest.raises(NotActiveError):
        await active.instances.run()
    assert tries == 3


async def test_overlaps_are_told_once(terms: Terms, monkeypatch: pytest.MonkeyPatch) -> None:
    active = await terms.next()
    client = await terms.client()
    await node(client, 3).join()
    block = InstanceListener(port=9094)
    await active.instances.create(InstanceState(instance=SHOP, listeners=(block,)))
    log = FakeLog()
    monkeypatch.setattr(active.instances, "_log", log)
    await active.instances.tell_overlaps()
    assert log.reasons == []
    state = gateway_state("gw", port=9092)
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
    await active.instances.tell_overlaps()
    await active.instances.create(InstanceState(instance=InstanceId("other")))
    await active.instances.tell_overlaps()
    assert len(log.reasons) == 2, "at the gateway and at its host, once each"
    assert all("9094 to 9097 of instance shop overlap" in reason for reason in log.reasons)
