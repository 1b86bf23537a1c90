import asyncio
from types import SimpleNamespace

import pytest

from highwater.gateway.handling import topic_creation
from highwater.gateway.handling.topic_creation import (
    auto_topic,
    coordinator_topic,
    create_topics,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import UnreachableError
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    group_topic,
    image_of,
)
from tests.unit.gateway.quota.fake_quota import Owing


def context_of(backend):
    return Client(backend).context(3, 9)


async def test_many_clients_share_one_call():
    backend = FakeBackend()
    backend.controller.hold = asyncio.Event()
    context = context_of(backend)
    callers = [
        asyncio.ensure_future(create_topics(context, [auto_topic(context, "clicks")]))
        for _ in range(20)
    ]
    await asyncio.sleep(0)
    backend.controller.hold.set()
    assert await asyncio.gather(*callers) == [{"clicks": 0}] * 20
    assert len(backend.controller.requests) == 1
    assert not any(backend.shared.creations.values())


async def test_topics_being_created_are_not_requested_again():
    backend = FakeBackend()
    hold = backend.controller.hold = asyncio.Event()
    context = context_of(backend)
    first = asyncio.ensure_future(create_topics(context, [auto_topic(context, "a")]))
    await asyncio.sleep(0)
    wishes = [auto_topic(context, "a"), auto_topic(context, "b")]
    second = asyncio.ensure_future(create_topics(context, wishes))
    await asyncio.sleep(0)
    hold.set()
    assert await first == {"a": 0}
    assert await second == {"a": 0, "b": 0}
    names = [[wish.name for wish in request.topics] for request in backend.controller.requests]
    assert names == [["a"], ["b"]]


async def test_other_callers_go_on_when_the_first_leaves():
    backend = FakeBackend()
    backend.controller.hold = asyncio.Event()
    context = context_of(backend)
    first = asyncio.ensure_future(create_topics(context, [auto_topic(context, "a")]))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(create_topics(context, [auto_topic(context, "a")]))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == {"a": ErrorCode.LEADER_NOT_AVAILABLE}
    assert not any(backend.shared.creations.values())


async def test_another_gateway_creates_the_topic_first():
    backend = FakeBackend()
    backend.controller.errors["a"] = (ErrorCode.TOPIC_ALREADY_EXISTS, "exists")
    context = context_of(backend)
    assert await create_topics(context, [auto_topic(context, "a")]) == {"a": 0}


async def test_the_number_of_creations_is_limited(monkeypatch):
    monkeypatch.setattr(topic_creation, "CREATIONS_MAX", 1)
    backend = FakeBackend()
    context = context_of(backend)
    codes = await create_topics(context, [auto_topic(context, "a"), auto_topic(context, "b")])
    assert codes == {"a": ErrorCode.LEADER_NOT_AVAILABLE, "b": ErrorCode.LEADER_NOT_AVAILABLE}
    assert backend.controller.requests == []


async def test_an_instance_leaves_room_for_the_creations_of_others(monkeypatch):
    monkeypatch.setattr(topic_creation, "CREATIONS_MAX", 10)
    backend = FakeBackend()
    hold = backend.controller.hold = asyncio.Event()
    first, second = context_of(backend), Client(backend, instance=OTHER).context(3, 9)

    def wishes(context, count, name):
        made = [auto_topic(context, f"{name}{number}") for number in range(count)]
        return asyncio.ensure_future(create_topics(context, made))

    greedy = wishes(first, 6, "a")
    await asyncio.sleep(0)
    assert set((await wishes(first, 1, "b")).values()) == {ErrorCode.LEADER_NOT_AVAILABLE}
    modest = wishes(second, 2, "a")
    await asyncio.sleep(0)
    hold.set()
    assert set((await greedy).values()) == set((await modest).values()) == {0}


async def test_the_topic_of_group_metadata_is_internal_and_compacted():
    backend = FakeBackend(group_metadata_partitions=7)
    found = await coordinator_topic(context_of(backend), GROUP_METADATA_TOPIC)
    assert found is not None
    assert (found.internal, len(found.partitions)) == (True, 7)
    assert found.configs["cleanup.policy"] == "compact"
    [wish] = backend.controller.requests[0].topics
    assert (wish.name, wish.internal, wish.replication_factor) == ("__consumer_offsets", True, -1)


async def test_the_topic_of_group_metadata_waits_for_the_nodes_of_its_replicas():
    backend = FakeBackend(group_metadata_replication_factor=3)
    code = int(ErrorCode.INVALID_REPLICATION_FACTOR)
    backend.controller.errors["__consumer_offsets"] = (code, "only 1 broker(s) are registered.")
    assert await coordinator_topic(context_of(backend), GROUP_METADATA_TOPIC) is None
    [wish] = backend.controller.requests[0].topics
    assert wish.replication_factor == 3
    backend.controller.errors.clear()
    assert await coordinator_topic(context_of(backend), GROUP_METADATA_TOPIC) is not None


@pytest.mark.parametrize("name", [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
async def test_all_other_instances_share_a_topic_of_the_same_settings(name):
    backend = FakeBackend()
    plain = await coordinator_topic(context_of(backend), name)
    shared = await coordinator_topic(Client(backend, instance=OTHER).context(3, 9), name)
    third = Client(backend, instance=InstanceId("third")).context(3, 9)
    assert await coordinator_topic(third, name) is shared
    assert (shared.instance, shared.internal) == (SYSTEM_INSTANCE, True)
    assert shared.name != plain.name
    assert (shared.configs, len(shared.partitions)) == (plain.configs, len(plain.partitions))
    first, second = backend.controller.requests
    assert (first.instance, second.instance) == (DEFAULT_INSTANCE, SYSTEM_INSTANCE)
    assert first.topics[0].replication_factor == second.topics[0].replication_factor
    assert not any(backend.shared.creations.values())


async def test_an_existing_group_metadata_topic_is_not_created():
    backend = FakeBackend(image_of(group_topic()))
    found = await coordinator_topic(context_of(backend), GROUP_METADATA_TOPIC)
    assert found is backend.image.topic("__consumer_offsets")
    assert backend.controller.requests == []


async def test_a_creation_that_fails_is_logged_within_the_limit():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    lines = []
    backend.log = SimpleNamespace(warning=lambda event, **values: lines.append((event, values)))
    context = context_of(backend)
    for _ in range(50):
        codes = await create_topics(context, [auto_topic(context, "clicks")])
        assert codes == {"clicks": ErrorCode.LEADER_NOT_AVAILABLE}
    [(event, values)] = lines
    assert (event, values["topics"]) == ("topic_creation_failed", ["clicks"])


async def test_the_topic_of_transaction_states_has_kafkas_configs():
    backend = FakeBackend(
        transaction_state_partitions=7,
        transaction_state_replication_factor=3,
        transaction_state_min_isr=1,
        transaction_state_segment_bytes=1 << 20,
    )
    found = await coordinator_topic(context_of(backend), TRANSACTION_STATE_TOPIC)
    assert found is not None
    assert (found.internal, len(found.partitions)) == (True, 7)
    assert found.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "1048576",
        "unclean.leader.election.enable": "false",
    }
    [wish] = backend.controller.requests[0].topics
    assert (wish.name, wish.internal, wish.replication_factor) == ("__transaction_state", True, 3)


async def test_topics_made_for_a_client_count_but_those_of_coordinators():
    backend = FakeBackend(partitions_default=6)
    client = Client(backend)
    client.quota = owing = Owing()
    context = client.context(3, 9)
    wishes = [auto_topic(context, name) for name in ("clicks", "__consumer_offsets")]
    assert await create_topics(context, wishes) == dict.fromkeys((w.name for w in wishes), 0)
    assert owing.asked == [(6, False)]
