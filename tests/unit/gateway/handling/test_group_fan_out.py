import pytest

from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.kafka.api_keys import ApiKey
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import group_topic, image_of


async def ask(backend, ids):
    return await ask_coordinators(
        Client(backend).context(ApiKey.DELETE_GROUPS, 2),
        ids,
        id_of=lambda group_id: group_id,
        encode=lambda some: ",".join(some).encode(),
        decode=lambda body: body.decode().split(","),
        failed=lambda group_id, code: f"{group_id} failed with {code}",
    )


async def test_one_call_for_each_partition_and_results_in_order():
    backend = FakeBackend(image_of(group_topic([1, 1, 1])))
    backend.coordinate(lambda call: (0, call.body.upper()))
    assert await ask(backend, list("abcdef")) == list("ABCDEF")
    calls = {call.partition: bytes(call.body) for _, call in backend.coordinator_calls()}
    # 'a' hashes to 97 and so on; 97 % 3 == 1.
    assert calls == {1: b"a,d", 2: b"b,e", 0: b"c,f"}


async def test_a_coordinator_fails_its_own_groups_only():
    backend = FakeBackend(image_of(group_topic([1, -1, 1])))
    backend.coordinate(lambda call: (0, call.body.upper()))
    assert await ask(backend, list("abcd")) == ["a failed with 15", "B", "C", "d failed with 15"]


async def test_an_answer_that_is_not_one_for_one_is_a_bug():
    backend = FakeBackend(image_of(group_topic([1, 1, 1])))
    backend.coordinate(lambda call: (0, b"x,y,z"))
    with pytest.raises(ExceptionGroup):
        await ask(backend, ["a"])


async def test_an_empty_request():
    assert await ask(FakeBackend(), []) == []
