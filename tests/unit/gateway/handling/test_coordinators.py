import asyncio

import pytest

from highwater.gateway.handling import coordinators
from highwater.gateway.handling.coordinators import (
    CoordinatorPlace,
    ask_coordinator,
    ask_node,
    leading_nodes,
    place_of,
)
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import GROUP_METADATA_TOPIC, NodeId
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    group_topic,
    image_of,
    shared_topic,
)

# abs("readers".hashCode()) % 3, from Java.
PARTITION = 1


def context_of(client, api_key=ApiKey.HEARTBEAT):
    return client.context(api_key, 3)


async def test_a_group_lives_with_the_leader_of_its_partition():
    context = context_of(Client(FakeBackend(image_of(group_topic([1, 2, 3])))))
    assert place_of(context, "readers") == (2, PARTITION)
    assert leading_nodes(context) == [1, 2, 3]


async def test_nothing_is_coordinated_before_the_topic_exists():
    context = context_of(Client(FakeBackend()))
    assert place_of(context, "readers") is None
    assert leading_nodes(context) == []
    assert await ask_coordinator(context, "readers", b"", 1_000) == (15, b"")


async def test_other_instances_have_their_groups_elsewhere():
    backend = FakeBackend(image_of(group_topic()))
    context = context_of(Client(backend, instance=OTHER))
    assert place_of(context, "readers") is None
    assert leading_nodes(context) == []
    shared = shared_topic(GROUP_METADATA_TOPIC, [3, 2])
    backend = FakeBackend(image_of(group_topic(), shared))
    context = context_of(Client(backend, instance=OTHER))
    partition = coordinator_place(OTHER, "readers", 2)
    assert place_of(context, "readers") == ((3, 2)[partition], partition)
    assert leading_nodes(context) == [2, 3]
    backend.coordinate(lambda call: (0, b"answer"))
    await ask_coordinator(context, "readers", b"body", 1_000)
    [(_, call)] = backend.coordinator_calls()
    assert (call.instance, call.partition) == (OTHER, partition)


async def test_leaderless_partitions_have_no_coordinator():
    backend = FakeBackend(image_of(group_topic([1, -1, 1])))
    context = context_of(Client(backend))
    assert leading_nodes(context) == [1]
    assert await ask_coordinator(context, "readers", b"", 1_000) == (15, b"")


async def test_call_and_reply_of_the_coordinator():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (0, b"answer"))
    context = context_of(Client(backend))
    assert await ask_coordinator(context, "readers", b"body", 1_000) == (0, b"answer")
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, call.body) == (2, PARTITION, b"body")
    assert (call.api_key, call.api_version, call.instance) == (12, 3, "default")
    assert (call.client_id, call.client_host) == ("test-client", "/192.0.2.7")
    assert 0 < call.deadline_ms <= 1_000


@pytest.mark.parametrize(("code", "told"), [(14, 14), (15, 15), (7, 15), (6, 16), (-1, -1)])
async def test_codes_are_those_that_group_clients_know(code, told):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (code, b""))
    context = context_of(Client(backend))
    assert await ask_coordinator(context, "readers", b"", 1_000) == (told, b"")


async def test_a_call_follows_its_coordinator():
    backend = FakeBackend(image_of(group_topic()))
    context = context_of(Client(backend))
    moved = group_topic([1, 3, 3])

    def refuse(call):
        loop = asyncio.get_running_loop()
        loop.call_later(0.005, lambda: backend.change(topics=(moved,)))
        return (ErrorCode.NOT_COORDINATOR, b"")

    backend.links[2].coordinate = refuse
    backend.links[3].coordinate = lambda call: (0, b"moved")
    assert await ask_coordinator(context, "readers", b"", 1_000) == (0, b"moved")
    assert [node_id for node_id, _ in backend.coordinator_calls()] == [2, 3]


@pytest.mark.parametrize(("chosen", "code"), [(None, 0), (2, 0), (3, ErrorCode.NOT_COORDINATOR)])
async def test_a_call_that_must_not_come_late_goes_where_its_client_meant(chosen, code):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (0, b"done"))
    context = context_of(Client(backend, node_id=chosen), ApiKey.OFFSET_COMMIT)
    told = await ask_coordinator(context, "readers", b"", 1_000)
    assert told.error_code == code
    assert [node for node, _ in backend.coordinator_calls()] == ([2] if not code else [])


async def test_a_call_that_must_not_come_late_is_not_routed_again():
    backend = FakeBackend(image_of(group_topic()))

    def refuse(call):
        backend.change(topics=(group_topic([1, 3, 3]),))
        return (ErrorCode.NOT_COORDINATOR, b"")

    backend.coordinate(refuse)
    context = context_of(Client(backend), ApiKey.OFFSET_COMMIT)
    told = await ask_coordinator(context, "readers", b"", 1_000)
    assert told.error_code == ErrorCode.NOT_COORDINATOR
    assert len(backend.coordinator_calls()) == 1


async def test_without_newer_metadata_the_refusal_is_the_answer():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (ErrorCode.NOT_COORDINATOR, b""))
    context = context_of(Client(backend))
    assert await ask_coordinator(context, "readers", b"", 1_000) == (16, b"")
    assert len(backend.coordinator_calls()) == 1


async def test_redirects_of_a_call_are_limited():
    backend = FakeBackend(image_of(group_topic()))
    context = context_of(Client(backend))

    def refuse(call):
        backend.change()
        return (ErrorCode.NOT_COORDINATOR, b"")

    backend.coordinate(refuse)
    assert await ask_coordinator(context, "readers", b"", 1_000) == (16, b"")
    assert len(backend.coordinator_calls()) == coordinators.ATTEMPTS_MAX


async def test_the_deadline_counts_over_all_attempts():
    backend = FakeBackend(image_of(group_topic()))
    context = context_of(Client(backend))

    def refuse_late(call):
        backend.clock.now_ms += 600
        backend.change()
        return (ErrorCode.NOT_COORDINATOR, b"")

    backend.coordinate(refuse_late)
    assert await ask_coordinator(context, "readers", b"", 1_000) == (16, b"")
    assert [call.deadline_ms for _, call in backend.coordinator_calls()] == [1_000, 400]


async def test_an_unreachable_node_is_no_coordinator():
    context = context_of(Client(FakeBackend(image_of(group_topic()))))
    assert await ask_node(context, CoordinatorPlace(NodeId(9), 0), b"", 1_000) == (15, b"")


async def test_a_call_is_cancelled_when_its_client_leaves():
    backend = FakeBackend(image_of(group_topic()))
    client = Client(backend)
    asking = asyncio.ensure_future(ask_coordinator(context_of(client), "readers", b"", 60_000))
    await asyncio.sleep(0)
    [(_, call)] = backend.coordinator_calls()
    client.disconnect()
    assert await asking == (15, b"")
    assert backend.links[2].cancelled == [call]
    call.reply(0, b"too late")


async def test_a_client_that_left_before_its_request_was_passed_on():
    backend = FakeBackend(image_of(group_topic()))
    client = Client(backend)

    class Gone(list):
        def append(self, cleanup):
            cleanup()

    client.cleanups = Gone()
    assert await ask_coordinator(context_of(client), "readers", b"", 60_000) == (15, b"")
    assert backend.links[2].calls == []


async def test_a_client_that_leaves_after_the_answer_cancels_nothing():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (0, b""))
    client = Client(backend)
    await ask_coordinator(context_of(client), "readers", b"", 1_000)
    client.disconnect()
    assert backend.links[2].cancelled == []


async def test_a_handler_that_is_cancelled_cancels_its_call():
    backend = FakeBackend(image_of(group_topic()))
    context = context_of(Client(backend))
    asking = asyncio.ensure_future(ask_coordinator(context, "readers", b"", 60_000))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(backend.links[2].cancelled) == 1


async def test_a_node_that_never_answers(monkeypatch):
    monkeypatch.setattr(coordinators, "REPLY_GRACE_MS", 0)
    backend = FakeBackend(image_of(group_topic()))
    context = context_of(Client(backend))
    assert await ask_coordinator(context, "readers", b"", 10) == (15, b"")
