"""Lists, decommissions and removes nodes of a cluster, for the command line."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse, read_image
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.cluster import NodeState
from highwater.model.errors import HighwaterError, UsageError

TIMEOUT_S: Final = 10.0
"""The limit of one call."""
STEP_S: Final = 0.5
"""The pause between two steps of a decommission: reassignments take seconds."""
STALLED_S_MAX: Final = 600.0
"""A decommission ends when nothing has changed for so long; it can be run again."""

_OPERATOR_S: Final = frozenset({
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.INVALID_REQUEST,
})  # fmt: skip
"""Refusals that end only when the operator changes something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node with its numbers of replicas and of partitions that it leads."""

    node_id: int
    address: str
    rack: str
    state: str
    replicas: int
    leaders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecommissionStep:
    """Replicas that are left on the node, that are moving, and that no other node can take."""

    left: int
    moving: int
    waiting: int


def read_nodes(address: str) -> list[NodeView]:
    """All nodes that the controller knows, by id. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> list[NodeView]:
        image = await read_image(endpoints, TIMEOUT_S)
        replicas: Counter[int] = Counter()
        leaders: Counter[int] = Counter()
        for topic in image.topics.values():
            for partition in topic.partitions:
                replicas.update(partition.replicas)
                leaders[partition.leader] += 1
        return [
            NodeView(
                node_id=node.node_id,
                address=node.address,
                rack=node.rack,
                state=_state_of(node),
                replicas=replicas[node.node_id],
                leaders=leaders[node.node_id],
            )
            for _, node in sorted(image.nodes.items())
        ]

    return converse(address, work)


def decommission(
    address: str,
    node_id: int,
    *,
    moves_max: int,
    on_step: Callable[[DecommissionStep], None],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Returns when the node has no replica; calls `on_step` after every change.

    Raises UsageError if the other nodes are too few or the node does not exist, and HighwaterError
    if the controller does not answer or nothing has moved for long. It can be called again to go on.
    """

    async def work(endpoints: ControllerEndpoints) -> None:
        client = ControllerClient(endpoints)
        request = pb.DecommissionNodeRequest(node_id=node_id, moves_max=moves_max)
        last: DecommissionStep | None = None
        unchanged_s = 0.0
        while True:
            step = await _step(client, request)
            if step != last:
                on_step(step)
                last, unchanged_s = step, 0.0
            if not step.left:
                return
            if unchanged_s >= STALLED_S_MAX:
                raise HighwaterError(
                    f"nothing has moved for {STALLED_S_MAX:g} s, {step.left} replicas are left; "
                    "run the command again to go on"
                )
            await pause(STEP_S)
            unchanged_s += STEP_S

    converse(address, work)


def recommission(address: str, node_id: int) -> DecommissionStep:
    """Allows new replicas on the node again; returns its replicas and those still moving away."""

    async def work(endpoints: ControllerEndpoints) -> DecommissionStep:
        request = pb.DecommissionNodeRequest(node_id=node_id, cancel=True)
        return await _step(ControllerClient(endpoints), request)

    return converse(address, work)


def remove(address: str, node_id: int) -> None:
    """Removes a stopped node without replicas. Raises UsageError if the controller refuses."""

    async def work(endpoints: ControllerEndpoints) -> None:
        response = await ControllerClient(endpoints).remove_node(
            pb.RemoveNodeRequest(node_id=node_id), timeout_s=TIMEOUT_S
        )
        _check(response.error)

    converse(address, work)


async def _step(client: ControllerClient, request: pb.DecommissionNodeRequest) -> DecommissionStep:
    response = await client.decommission_node(request, timeout_s=TIMEOUT_S)
    _check(response.error)
    return DecommissionStep(
        left=response.replicas_left, moving=response.moving, waiting=response.waiting
    )


def _check(error: pb.ApiError) -> None:
    if error.error_code in _OPERATOR_S:
        raise UsageError(error.message)
    if error.error_code:
        raise HighwaterError(error.message)


def _state_of(node: NodeState) -> str:
    words = ["fenced" if node.fenced else "draining" if node.draining else "alive"]
    if node.decommissioning:
        words.append("decommissioned")
    return ", ".join(words)
