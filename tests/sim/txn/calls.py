"""Calls between the processes of a cluster, and what a process knows of where its peers are.

Takes the place of `node.node_calls.NodeCalls` below the product's `MarkerLink` and `VerifierLink`. A
call that nobody answered is given up; it may arrive all the same, and twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.core.producers import STRICT_EPOCHS_FROM

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess
    from tests.sim.txn.cluster import Cluster
    from tests.sim.txn.parts import Node
    from tests.sim.world import World

CALL_MS = 400
"""The product waits 5 s for a verification and 30 s for markers."""

MARKERS = "WriteTxnMarkers"

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class SimCalls:
    """Of one process, from its start to its end."""

    def __init__(self, process: NodeProcess, cluster: Cluster) -> None:
        self._process = process
        self._cluster = cluster
        self._calls = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def call(
        self,
        node: int,
        method: str,
        request: RequestT,
        *,
        serialize: Callable[[RequestT], bytes],
        deserialize: Callable[[bytes], ResponseT],
        timeout_s: float,
    ) -> ResponseT | None:
        """See `NodeCalls.call`; a node's partitions are processes of their own here."""
        del timeout_s
        if isinstance(request, pb.WriteTxnMarkersRequest):
            codes = []
            for marker in request.markers:
                for place in marker.partitions:
                    one = pb.TxnMarker()
                    one.CopyFrom(marker)
                    del one.partitions[:]
                    one.partitions.append(place)
                    data = pb.WriteTxnMarkersRequest(markers=[one]).SerializeToString()
                    # Where the epoch does not tell transactions apart, a marker that is late by
                    # more than its request could end the next one; Kafka has no answer to that
                    # before transaction.version 2. The transport then drops what was given up.
                    may_be_late = marker.transaction_version >= STRICT_EPOCHS_FROM
                    found = await self._one(
                        self._cluster.world_of(place.topic_id), node, method, data, may_be_late
                    )
                    answer = pb.WriteTxnMarkersResponse.FromString(found or b"")
                    codes += answer.error_codes or [ErrorCode.REQUEST_TIMED_OUT]
            done = pb.WriteTxnMarkersResponse(error_codes=codes).SerializeToString()
            return deserialize(done)
        data = serialize(request)
        found = await self._one(self._cluster.home, node, method, data, True)
        return None if found is None else deserialize(found)

    async def _one(
        self, world: World, node: int, method: str, data: bytes, may_be_late: bool
    ) -> bytes | None:
        process = self._process
        self._calls += 1
        number = self._calls
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        back = (process.world, process.node, process.incarnation, number)
        given_up = None if may_be_late else (lambda: number not in self._waiting)
        args = ("on_call", (back, method, data, given_up))
        late_ms = self._cluster.faults.late_marker(process) if method == MARKERS else 0
        copy_ms = self._cluster.faults.late_copy() if method == MARKERS and may_be_late else 0
        for extra_ms in filter(None, (late_ms, copy_ms)):
            world.after(extra_ms, world.network.deliver, node, None, "on_part", args)
        if not late_ms:
            world.network.send(process.node, node, "on_part", args, repeatable=may_be_late)
        try:
            return await asyncio.wait_for(answer, CALL_MS / 1000)
        except TimeoutError:
            return None
        finally:
            del self._waiting[number]

    def answered(self, number: int, data: bytes) -> None:
        """An answer came, perhaps too late or for the second time."""
        answer = self._waiting.get(number)
        if answer is not None and not answer.done():
            answer.set_result(data)


class ServedCalls:
    """The other end, in the process that is called."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def serve(
        self,
        back: tuple[World, int, int, int],
        method: str,
        data: bytes,
        given_up: Callable[[], bool] | None,
    ) -> None:
        if given_up is not None and given_up():
            return
        answer = partial(self._answer, back)
        if method == MARKERS:
            self._node.tasks.start(self._markers(data, answer), name="markers")
            return
        assert method == "CoordinateOne", method
        call = pb.CoordinatorCall.FromString(data)
        self._node.submit(
            CoordinatorCall(
                api_key=call.api_key,
                api_version=call.api_version,
                instance=DEFAULT_INSTANCE,
                client_id="",
                client_host="",
                body=call.body,
                partition=call.coordinator_partition,
                deadline_ms=call.deadline_ms,
                reply=lambda code, body: answer(
                    pb.CoordinatorReply(error_code=code, body=bytes(body)).SerializeToString()
                ),
            )
        )

    async def _markers(self, data: bytes, answer: Callable[[bytes], None]) -> None:
        response = await self._node.markers.write(pb.WriteTxnMarkersRequest.FromString(data))
        answer(response.SerializeToString())

    def _answer(self, back: tuple[World, int, int, int], data: bytes) -> None:
        world, node, incarnation, number = back
        args: tuple[Any, ...] = ("on_called", (number, data))
        world.network.send(
            self._node.process.node, node, "on_part", args, incarnation=incarnation, repeatable=True
        )
