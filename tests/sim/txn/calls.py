"""Calls between the processes of a cluster, and what a process knows of where its peers are.

Takes the place of `node.node_calls.NodeCalls` below the product's `MarkerLink` and `VerifierLink`. A
call that nobody answered is given up; it may arrive all the same, and twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
Back = tuple[str, int, int, int]
"""Topic, node, incarnation and number of whoever waits for an answer."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class _Outgoing(NamedTuple):
    """A request that leaves at the end of the turn."""

    method: str
    node: int
    data: bytes
    number: int
    world: World
    may_be_late: bool


class _GivenUp:
    """Tells whether a request was given up, which the transport then drops."""

    def __init__(self, waiting: dict[int, asyncio.Future[bytes]], number: int) -> None:
        self._waiting = waiting
        self._number = number

    def __call__(self) -> bool:
        return self._number not in self._waiting

    def __repr__(self) -> str:
        return "given up?"


class SimCalls:
    """Of one process, from its start to its end."""

    def __init__(self, process: NodeProcess, cluster: Cluster, topic: str) -> None:
        self._process = process
        self._cluster = cluster
        self._topic = topic
        self._outgoing: list[_Outgoing] = []
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
            places = [(one, place) for one in request.markers for place in one.partitions]
            found = await asyncio.gather(*(self._marker(node, *one) for one in places))
            done = pb.WriteTxnMarkersResponse(error_codes=found).SerializeToString()
            return deserialize(done)
        data = serialize(request)
        answer = await self._one(self._cluster.home, node, method, data, True)
        return None if answer is None else deserialize(answer)

    async def _marker(self, node: int, marker: pb.TxnMarker, place: pb.TxnMarkerPartition) -> int:
        one = pb.TxnMarker()
        one.CopyFrom(marker)
        del one.partitions[:]
        one.partitions.append(place)
        data = pb.WriteTxnMarkersRequest(markers=[one]).SerializeToString()
        # Where the epoch does not tell transactions apart, a marker that is late by more than its
        # request could end the next one; Kafka has no answer to that before transaction.version 2.
        # The transport then drops what was given up.
        may_be_late = marker.transaction_version >= STRICT_EPOCHS_FROM
        world = self._cluster.world_of(place.topic_id)
        found = await self._one(world, node, MARKERS, data, may_be_late)
        codes = pb.WriteTxnMarkersResponse.FromString(found or b"").error_codes
        return codes[0] if codes else ErrorCode.REQUEST_TIMED_OUT

    async def _one(
        self, world: World, node: int, method: str, data: bytes, may_be_late: bool
    ) -> bytes | None:
        self._calls += 1
        number = self._calls
        loop = asyncio.get_running_loop()
        answer = self._waiting[number] = loop.create_future()
        if not self._outgoing:
            loop.call_soon(self._send)
        self._outgoing.append(_Outgoing(method, node, data, number, world, may_be_late))
        try:
            return await asyncio.wait_for(answer, CALL_MS / 1000)
        except TimeoutError:
            return None
        finally:
            del self._waiting[number]

    def _send(self) -> None:
        """In an order that no hash of a name has made."""
        outgoing, self._outgoing = self._outgoing, []
        for one in sorted(outgoing, key=lambda sent: sent[:3]):
            self._send_one(one)

    def _send_one(self, one: _Outgoing) -> None:
        process, world = self._process, one.world
        back = (self._topic, process.node, process.incarnation, one.number)
        given_up = None if one.may_be_late else _GivenUp(self._waiting, one.number)
        args = ("on_call", (back, one.method, one.data, given_up))
        faults, marks = self._cluster.faults, one.method == MARKERS
        late_ms = faults.late_marker(process) if marks else 0
        copy_ms = faults.late_copy() if marks and one.may_be_late else 0
        for extra_ms in filter(None, (late_ms, copy_ms)):
            world.after(extra_ms, world.network.deliver, one.node, None, "on_part", args)
        if not late_ms:
            send = world.network.send
            send(process.node, one.node, "on_part", args, repeatable=one.may_be_late)

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
        back: Back,
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

    def _answer(self, back: Back, data: bytes) -> None:
        topic, node, incarnation, number = back
        world = self._node.cluster.worlds[topic]
        args: tuple[Any, ...] = ("on_called", (number, data))
        world.network.send(
            self._node.process.node, node, "on_part", args, incarnation=incarnation, repeatable=True
        )
