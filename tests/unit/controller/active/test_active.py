"""A new active controller takes over a store."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from highwater.controller.active.active import FIRST_WORD_S
from highwater.controller.core.outcome import PENDING_REVISION
from highwater.controller.service import ControllerService
from highwater.controller.store import keys
from highwater.controller.store.image_store import operations
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import Operation, Put
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.scram import LOGIN_SECRET_BYTES
from tests.support.controller import START_TIMEOUT_S, controller_config
from tests.support.controller_images import image_of, image_with, node_state, topic_state


class Office:
    """A store, and controllers that use it one after the other."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.services: list[ControllerService] = []
        self.secret = b""
        """That the newest controller hands out to gateways."""

    async def write(self, changes: list[Operation]) -> None:
        await self.store.txn((), changes)

    async def take(self) -> ClusterImage:
        """A new controller's image after it has settled."""
        service = ControllerService(controller_config(), store=self.store, serve_grpc=False)
        self.services.append(service)
        await service.start()
        active = await service.wait_active(START_TIMEOUT_S)
        self.secret = active.login_secret
        await active.check_seen(0)  # A member's heartbeat arrives.
        await asyncio.sleep(0.05)
        return active.image


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    made = Office()
    yield made
    for service in made.services:
        await service.stop()


async def test_an_empty_store_becomes_a_cluster_once(office: Office) -> None:
    image = await office.take()
    assert len(image.cluster_id) == 22
    (entry,) = (await office.store.range(keys.CLUSTER)).entries
    assert keys.decode(entry.key, entry.value)["cluster_id"] == image.cluster_id


async def test_the_secret_of_logins_is_made_once_also_in_a_store_of_before_there_was_one(
    office: Office,
) -> None:
    old = keys.encode({"cluster_id": "4L6g3nShT-eMCtK--X86sw"})
    await office.write([Put(key=keys.CLUSTER, value=old)])
    image = await office.take()
    assert image.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert len(office.secret) == LOGIN_SECRET_BYTES
    (entry,) = (await office.store.range(keys.CLUSTER)).entries
    later = Office()
    await later.write([Put(key=keys.CLUSTER, value=entry.value)])
    await later.take()
    await later.services[0].stop()
    assert later.secret == office.secret, "that of the next term is the same"


async def test_leftovers_are_removed(office: Office) -> None:
    topic = topic_state("half", [(1,)] * 3)
    delta = ClusterDelta(revision=PENDING_REVISION, topics=(topic,))
    await office.write(operations(image_of(), delta)[:-1])
    image = await office.take()
    assert image.topics == {}
    assert (await office.store.range(keys.PARTITIONS)).entries == ()


async def test_elections_left_open_by_a_former_controller_are_held(office: Office) -> None:
    """The former controller fenced node 1 and died before it moved the partitions."""
    topic = topic_state("t", [(1, 2), (2, 1), (1,)])
    dead = replace(node_state(1), fenced=True)
    delta = ClusterDelta(revision=PENDING_REVISION, topics=(topic,), nodes=(dead, node_state(2)))
    await office.write(operations(image_of(), delta))
    image = await office.take()
    assert [p.leader for p in image.topics[topic.topic_id].partitions] == [2, 2, -1]


async def test_nothing_changes_before_the_first_heartbeat(office: Office) -> None:
    topic = topic_state("t", [(1, 2)])
    dead = replace(node_state(1), fenced=True)
    delta = ClusterDelta(revision=PENDING_REVISION, topics=(topic,), nodes=(dead, node_state(2)))
    await office.write(operations(image_of(), delta))
    await office.write([Put(key=keys.CLUSTER, value=keys.encode({"cluster_id": "c"}))])
    service = ControllerService(controller_config(), store=office.store, serve_grpc=False)
    office.services.append(service)
    await service.start()
    active = await service.wait_active(START_TIMEOUT_S)
    revision = active.image.revision
    await asyncio.sleep(0.2)
    assert not active.may_change
    assert active.image.revision == revision
    await asyncio.sleep(FIRST_WORD_S)
    assert active.may_change, "nor for ever if there is nobody"


async def test_members_get_a_fresh_session(office: Office) -> None:
    before = image_with(2)
    delta = ClusterDelta(revision=PENDING_REVISION, nodes=tuple(before.nodes.values()))
    await office.write(operations(image_of(), delta))
    image = await office.take()
    assert not any(node.fenced for node in image.nodes.values())
    await asyncio.sleep(2.5)
    active = office.services[0].active
    assert active is not None
    assert all(node.fenced for node in active.image.nodes.values()), "and no more than that"


async def test_a_store_of_a_newer_version_stops_the_controller(office: Office) -> None:
    await office.write([Put(key="topics/" + "00" * 16, value=b'{"v":2}')])
    service = ControllerService(controller_config(), store=office.store, serve_grpc=False)
    office.services.append(service)
    await service.start()
    with pytest.raises(keys.UnknownFormatError):
        await asyncio.wait_for(service.failed, 5)
