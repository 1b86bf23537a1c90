"""Asks the leaders of several partitions at the same time; answers keep the request's order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.errors import leader_code
from highwater.gateway.routing.table import PartitionRoute
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError
from highwater.model.ids import NodeId

Q = TypeVar("Q")
A = TypeVar("A")


class Routed(NamedTuple, Generic[Q]):
    """One question, and the link to the leader or an error code."""

    link: NodeLink
    question: Q


def route_of(
    context: RequestContext, topic: str, partition: int
) -> tuple[PartitionRoute, NodeLink] | ErrorCode:
    """The link to a partition's leader, or the error code for the client.

    For a partition without a leader that is Kafka's (`ReplicaManager.getPartitionOrError`): its brokers
    answer what a client should look up again. Java's admin client gives up on LEADER_NOT_AVAILABLE.
    """
    routes = context.backend.routing.topic(context.peer.instance, topic)
    if routes is None or not 0 <= partition < len(routes.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    route = routes.partitions[partition]
    if route.link is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return route, route.link


async def ask_leaders(
    context: RequestContext,
    questions: Sequence[Routed[Q]],
    ask: Callable[[NodeLink, list[Q]], Awaitable[Sequence[A]]],
    failed: Callable[[int], A],
) -> list[A]:
    """Answers in the order of the questions; `ask` is called once for each node.

    If a node cannot be asked, only its own questions are answered `failed(error code)`.
    """
    by_node: dict[NodeId, tuple[NodeLink, list[int]]] = {}
    for index, routed in enumerate(questions):
        by_node.setdefault(routed.link.node_id, (routed.link, []))[1].append(index)
    answers: dict[int, A] = {}

    async def ask_one(link: NodeLink, indexes: list[int]) -> None:
        try:
            results = await ask(link, [questions[index].question for index in indexes])
        except HighwaterError as error:
            context.warn(
                "leader_not_asked",
                kind=str(link.node_id),
                api_key=context.api_key,
                node=link.node_id,
                error=str(error),
            )
            code = leader_code(error)
            answers.update((index, failed(code)) for index in indexes)
            return
        answers.update(zip(indexes, results, strict=True))

    if len(by_node) == 1:
        [(link, indexes)] = by_node.values()
        await ask_one(link, indexes)
    else:
        async with asyncio.TaskGroup() as tasks:
            for link, indexes in by_node.values():
                tasks.create_task(ask_one(link, indexes))
    return [answers[index] for index in range(len(questions))]
