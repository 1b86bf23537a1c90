from types import SimpleNamespace

import pytest

from highwater.gateway.handling.fan_out import Routed, ask_leaders, route_of
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError, UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    topic,
    topic_id,
)


def context_of(backend, **kwargs):
    return Client(backend, **kwargs).context(ApiKey.LIST_OFFSETS, 5)


def test_routes_to_leaders():
    backend = FakeBackend(image_of(topic("orders", [1, 3])))
    route, link = route_of(context_of(backend), "orders", 1)
    assert link is backend.links[3]
    assert (route.topic_id, route.partition, route.leader_epoch) == (topic_id("orders"), 1, 6)


@pytest.mark.parametrize(
    ("name", "partition", "code"),
    [
        ("orders", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nothing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_no_route(name, partition, code):
    backend = FakeBackend(image_of(topic("orders", [1, -1])))
    assert route_of(context_of(backend), name, partition) is code


def test_another_instance_s_topic_is_unknown():
    backend = FakeBackend(image_of(topic("orders")))
    code = route_of(context_of(backend, instance=OTHER), "orders", 0)
    assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_each_leader_is_asked_once_and_answers_keep_their_order():
    backend = FakeBackend()
    asked = []

    async def ask(link, questions):
        asked.append((link.node_id, questions))
        return [f"{question} from {link.node_id}" for question in questions]

    one, two = backend.links[1], backend.links[2]
    questions = [Routed(one, "a"), Routed(two, "b"), Routed(one, "c")]
    answers = await ask_leaders(context_of(backend), questions, ask, str)
    assert answers == ["a from 1", "b from 2", "c from 1"]
    assert sorted(asked) == [(1, ["a", "c"]), (2, ["b"])]
    assert await ask_leaders(context_of(backend), [], ask, str) == []


@pytest.mark.parametrize(("error", "code"), [(UnreachableError("x"), 6), (HighwaterError("x"), -1)])
async def test_an_unreachable_node_fails_its_own_questions(error, code):
    backend = FakeBackend()

    async def ask(link, questions):
        if link.node_id == 2:
            raise error
        return questions

    questions = [Routed(backend.links[n], n) for n in (1, 2, 1)]
    assert await ask_leaders(context_of(backend), questions, ask, lambda c: -c) == [1, -code, 1]


async def test_a_node_that_answers_too_little_is_a_bug():
    backend = FakeBackend()

    async def ask(link, questions):
        return questions[1:]

    with pytest.raises(ValueError, match="zip"):
        await ask_leaders(context_of(backend), [Routed(backend.links[1], 1)], ask, str)


async def test_a_leader_that_cannot_be_asked_is_logged_within_the_limit():
    backend = FakeBackend()
    lines = []
    backend.log = SimpleNamespace(warning=lambda event, **values: lines.append((event, values)))

    async def ask(link, questions):
        raise UnreachableError(f"node {link.node_id} is away")

    for _ in range(50):
        routed = [Routed(backend.links[number], "q") for number in (1, 2)]
        await ask_leaders(context_of(backend), routed, ask, str)
    assert [(event, values["node"]) for event, values in lines] == [
        ("leader_not_asked", 1),
        ("leader_not_asked", 2),
    ]
