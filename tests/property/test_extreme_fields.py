"""No value of any field of any request is an unforeseen error, in a gateway's handlers, in the messages
that they make for nodes and the controller, and in the coordinators behind them; and every answer can be
decoded.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients.coordinate_stream import CoordinateStream
from highwater.gateway.handling.apis import APIS
from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.registry import request_codec
from highwater.partition.transactions.runtime import TRANSACTION_APIS
from tests.property.extreme_fields import extreme_requests, request_cases
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    topic,
    transaction_topic,
)
from tests.unit.gateway.handlers.samples import TOPIC, sample_request
from tests.unit.partition.groups.node import Node as GroupNode
from tests.unit.partition.transactions.node import Node as TransactionNode

CASES = request_cases()
SERVED = [
    pytest.param(api, version, id=f"{api.module}-v{version}")
    for api in APIS.values()
    if api.module
    for version in range(api.served_from, api.max_version + 1)
]
PARKED_S = 0.02
"""A call that waits longer for others, as JoinGroup does: its client leaves."""
NEW_PARTITIONS = (-1, 1)
"""Of a topic that the controller creates; it refuses all the other values."""


class Errors(dict):
    """Refuses all that a controller is asked."""

    def get(self, _key, _default=None):
        return 42, "no"


class Log:
    """Notes what is unforeseen."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def bind(self, **_values: Any) -> Log:
        return self

    def __getattr__(self, level: str) -> Any:
        def write(event: str, **values: Any) -> None:
            if level in {"error", "exception", "critical"} or "exc_info" in values:
                self.lines.append((level, event, values))

        return write

    def write(self, _line: Any, event: str, *, kind: str = "", **values: Any) -> None:
        """As `LogLimit`."""
        if kind == "unforeseen":
            self.lines.append((event, values))


def answer_each(answers: Any, answer: Any, questions: str = "partitions") -> Any:
    """A node that answers each question alike."""

    def answered(request: Any) -> Any:
        assert request.SerializeToString() is not None
        return answers(results=[answer] * len(getattr(request, questions)))

    return answered


def marked(request: Any) -> Any:
    count = sum(len(marker.partitions) for marker in request.markers)
    return pb.WriteTxnMarkersResponse(error_codes=[0] * count)


def log_dirs(request: Any) -> Any:
    if isinstance(request, pb.AlterLogDirsRequest):
        return pb.AlterLogDirsResponse(error_codes=[0] * len(request.changes))
    return pb.DescribeLogDirsResponse()


class World:
    """A gateway, nodes that answer, and the coordinators of two of them."""

    def __init__(self) -> None:
        self.log = Log()
        one = topic(TOPIC, [1, 2, 1])
        self.backend = FakeBackend(image_of(one, group_topic([1]), transaction_topic([1])))
        self.backend.log_limit = self.log
        self.groups = GroupNode(logger=self.log)
        self.transactions = TransactionNode(logger=self.log)
        for link in self.backend.links.values():
            link.answer_offsets = answer_each(pb.ListOffsetsResponse, pb.ListOffsetsResult())
            link.answer_epochs = answer_each(pb.OffsetsForLeaderEpochResponse, pb.EpochAnswer())
            link.answer_producers = answer_each(pb.DescribeProducersResponse, pb.ProducersAnswer())
            link.answer_deletions = answer_each(pb.DeleteRecordsResponse, pb.DeleteRecordsResult())
            link.answer_markers = marked
            link.answer_log_dirs = log_dirs
            link.answer_loggers = lambda _: pb.DescribeLoggersResponse(levels={"root": "INFO"})
            link.submit = self.submit
            link.cancel = self.cancel

    def submit(self, call: CoordinatorCall) -> None:
        """Over the stream's message, as from another process."""
        channel = SimpleNamespace()
        stream = CoordinateStream(channel, on_bug=self.failed)
        stream._queue.append(call)
        message = pb.CoordinateRequest.FromString(stream._next_message())
        assert bytes(message.calls[0].body) == bytes(call.body)
        self.coordinator(call).submit(call)

    def cancel(self, call: CoordinatorCall) -> None:
        call.cancelled = True
        self.coordinator(call).cancel(call)

    def coordinator(self, call: CoordinatorCall) -> Any:
        node = self.transactions if call.api_key in TRANSACTION_APIS else self.groups
        return node.coordinator

    def failed(self, error: Exception) -> None:
        self.log.lines.append(error)

    async def answered(self, message: Any, api: Any, version: int) -> None:
        client = Client(self.backend)
        body = request_codec(api.key).encode_request(message, version)
        task = asyncio.ensure_future(client.send(api.key, version, body))
        done, _ = await asyncio.wait({task}, timeout=PARKED_S)
        if not done:
            client.disconnect()
        async with asyncio.timeout(10):
            answer = await task
        request_codec(api.key).decode_response(answer, 0, version)


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "taken"])
@pytest.mark.parametrize(("api", "version"), SERVED)
async def test_extreme_values_are_foreseen(api, version, refused):
    world = World()
    await world.groups.lead(0)
    await world.transactions.lead(0)
    valid = sample_request(api.key, version)
    found = []
    for name, message in extreme_requests(CASES[int(api.key), version], valid):
        new = [getattr(one, "num_partitions", 0) for one in getattr(message, "topics", None) or ()]
        odd = any(count not in NEW_PARTITIONS for count in new)
        world.backend.controller.errors = Errors() if refused or odd else {}
        try:
            await world.answered(message, api, version)
        except Exception as error:  # noqa: BLE001 - all are told at the end, with their fields.
            found.append((name, error))
        found += [(name, line) for line in world.log.lines]
        world.log.lines.clear()
    assert not found
