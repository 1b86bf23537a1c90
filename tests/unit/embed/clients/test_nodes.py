"""Nodes are listed and decommissioned at a controller whose members the test plays."""

import asyncio

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients import nodes
from highwater.embed.clients.nodes import (
    DecommissionStep,
    decommission,
    read_nodes,
    recommission,
    remove,
)
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.errors import HighwaterError, UsageError
from tests.support.controller import node, started, topic


@pytest.fixture
async def controller():
    """A controller with nodes 1 and 2, and topic t on both."""
    service = await started(serve_grpc=True, session_timeout_ms=60_000)
    endpoints = ControllerEndpoints([service.address])
    client = ControllerClient(endpoints)
    service.client = client
    service.first = await node(client, 1).join()
    service.second = await node(client, 2).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 2, 2)]))
    yield service
    await endpoints.close()
    await service.stop()


async def test_list(controller):
    read = await asyncio.to_thread(read_nodes, controller.address)
    assert [(one.node_id, one.state, one.replicas) for one in read] == [
        (1, "alive", 2), (2, "alive", 2),
    ]  # fmt: skip
    assert sum(one.leaders for one in read) == 2


async def test_too_few_other_nodes(controller):
    with pytest.raises(UsageError, match=r"too few for t \(2 replicas\)"):
        await asyncio.to_thread(
            decommission, controller.address, 2, moves_max=1, on_step=lambda _: None
        )
    with pytest.raises(UsageError, match="no node with id 9"):
        await asyncio.to_thread(
            decommission, controller.address, 9, moves_max=1, on_step=lambda _: None
        )


async def test_steps_until_nothing_is_left(controller):
    third = await node(controller.client, 3).join()
    steps = []

    async def leaders_catch_up(_seconds):
        """What nodes do between two steps: the added one is in sync, and leaders that were asked
        to hand over have done so.
        """
        image = controller.active.image
        for state in image.topics.values():
            for part in state.partitions:
                if part.adding_replicas:
                    leader = image.nodes[part.leader]
                    await controller.client.alter_partition(
                        pb.AlterPartitionRequest(
                            node_id=leader.node_id,
                            node_epoch=leader.node_epoch,
                            proposals=[
                                pb.IsrProposal(
                                    topic_id=state.topic_id,
                                    partition=part.partition,
                                    leader_epoch=part.leader_epoch,
                                    partition_epoch=part.partition_epoch,
                                    isr=part.replicas,
                                )
                            ],
                        )
                    )

        for member in (controller.first, controller.second, third):
            ready = [
                pb.HandedOver(
                    topic_id=asked.topic_id,
                    partition=asked.partition,
                    leader_epoch=asked.leader_epoch,
                    ready=True,
                )
                for asked in (await member.beat()).hand_over
            ]
            if ready:
                await member.beat(handed_over=ready)

    loop = asyncio.get_running_loop()

    async def pause(seconds):
        there = asyncio.run_coroutine_threadsafe(leaders_catch_up(seconds), loop)
        await asyncio.wrap_future(there)

    await asyncio.to_thread(
        decommission, controller.address, 2, moves_max=1, on_step=steps.append, pause=pause
    )
    assert steps == [
        DecommissionStep(left=2, moving=1, waiting=0),
        DecommissionStep(left=1, moving=1, waiting=0),
        DecommissionStep(left=0, moving=0, waiting=0),
    ]
    read = await asyncio.to_thread(read_nodes, controller.address)
    assert {one.node_id: (one.state, one.replicas) for one in read}[2] == (
        "alive, decommissioned",
        0,
    )
    back = await asyncio.to_thread(recommission, controller.address, 2)
    assert back == DecommissionStep(left=0, moving=0, waiting=0)


async def test_decommission_ends_when_nothing_moves(controller, monkeypatch):
    await node(controller.client, 3).join()
    monkeypatch.setattr(nodes, "STALLED_S_MAX", 1.0)
    steps = []

    async def pause(_seconds):
        pass

    with pytest.raises(HighwaterError, match="run the command again"):
        await asyncio.to_thread(
            decommission, controller.address, 2, moves_max=5, on_step=steps.append, pause=pause
        )
    assert steps == [DecommissionStep(left=2, moving=2, waiting=0)], "told once"


async def test_a_live_node_is_not_removed(controller):
    with pytest.raises(UsageError, match="stop it first"):
        await asyncio.to_thread(remove, controller.address, 2)
