"""Nodes that an operator removes while one of their calls waits for a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from highwater.controller.core.outcome import PENDING_REVISION, Decision
from highwater.controller.members.heartbeats import NodeHeartbeat
from highwater.controller.members.members import Members
from highwater.controller.service import ControllerService
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import NodeId, TopicId
from highwater.model.steps import Steps
from tests.support.controller import FakeNode, node, started

ONE = NodeId(1)


@pytest.fixture
async def service() -> AsyncIterator[ControllerService]:
    made = await started(session_timeout_ms=60_000)
    yield made
    await made.stop()


@pytest.fixture
def members(service: ControllerService) -> Members:
    assert service.active is not None
    return service.active.members


@pytest.fixture
def one(service: ControllerService) -> FakeNode:
    return node(ControllerClient(service.in_process_endpoints()), 1)


def removed(_: ClusterImage) -> Decision[None]:
    delta = ClusterDelta(revision=PENDING_REVISION, removed_nodes=frozenset({ONE}))
    return Decision(delta=delta, result=None)


def remove_before_commit(members: Members, *, number: int = 1) -> None:
    """Somebody else's commit, which removes the node, is carried out before the `number`th one."""
    writer = members._writer
    commit_in_steps, count = writer.commit_in_steps, 0

    async def commit_later(decide: Callable[[ClusterImage], Steps[Decision[Any]]]) -> Any:
        nonlocal count
        count += 1
        if count == number:
            writer.commit_in_steps = commit_in_steps  # type: ignore[method-assign]
            await writer.commit(removed)
        return await commit_in_steps(decide)

    writer.commit_in_steps = commit_later  # type: ignore[method-assign]


def beat(one: FakeNode, **fields: Any) -> NodeHeartbeat:
    return NodeHeartbeat(node_id=ONE, node_epoch=one.epoch, applied_revision=1 << 40, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"offline_replicas": {TopicId(bytes(16)): frozenset({0})}},
        {"wants_shutdown": True},
        {"wants_shutdown": True, "offline_replicas": {TopicId(bytes(16)): frozenset({0})}},
    ],
)
async def test_a_node_that_is_removed_during_its_heartbeat_is_told(
    members: Members, one: FakeNode, fields: dict[str, Any]
) -> None:
    await one.join()
    remove_before_commit(members)
    result = await members.heartbeat(beat(one, **fields))
    assert result.refusal is not None
    assert result.refusal.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    again = await members.heartbeat(beat(one))
    assert again.refusal is not None
    assert again.refusal.code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("wants_shutdown", [False, True])
@pytest.mark.parametrize("number", [1, 2])
async def test_a_node_that_is_removed_while_it_is_unfenced_is_told(
    members: Members, one: FakeNode, wants_shutdown: bool, number: int
) -> None:
    await one.register()
    remove_before_commit(members, number=number)
    result = await members.heartbeat(beat(one, wants_shutdown=wants_shutdown))
    if number == 2 and not wants_shutdown:
        assert result.refusal is None, "there is one commit only"
        return
    assert result.refusal is not None
    assert result.refusal.code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_node_that_is_removed_before_its_successor_fences_it_is_registered_anew(
    members: Members, one: FakeNode, service: ControllerService
) -> None:
    await one.join()
    successor = node(one.client, 1, "b")
    successor.previous_epoch = one.epoch
    members.nodes.stream_opened(ONE, epoch=one.epoch)
    members.nodes.stream_closed(ONE, epoch=one.epoch, now_ms=0)
    remove_before_commit(members)
    assert (await successor.register()).error.error_code == 0
    assert service.active is not None
    assert service.active.image.nodes[ONE].incarnation == "b1"


async def test_a_node_that_is_removed_as_soon_as_it_is_registered_is_told(
    members: Members, one: FakeNode
) -> None:
    writer = members._writer
    commit = writer.commit

    async def commit_and_remove(decide: Callable[[ClusterImage], Decision[Any]]) -> Any:
        """The removal waits right behind the registration, which hears of itself a turn later."""
        writer.commit = commit  # type: ignore[method-assign]
        done = await commit(decide)
        await commit(removed)
        return done

    writer.commit = commit_and_remove  # type: ignore[method-assign]
    response = await one.register()
    assert response.error.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
