"""Hostile messages of every call of the partition service, beside streams that must not suffer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from highwater.hop.append_codec import decode_response as decode_appended
from highwater.hop.append_codec import encode_request as encode_append
from highwater.hop.fetch import FetchPartition, FetchWork
from highwater.hop.fetch_codec import encode_request as encode_fetch
from highwater.hop.fetch_codec import parse_response as parse_fetched
from highwater.hop.framing import joined
from highwater.hop.transport import MESSAGE_BYTES_MAX, path_of
from highwater.model.ids import DEFAULT_INSTANCE, TopicId
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.rpc.channel import Channel
from highwater.rpc.messages import PREFIX
from highwater.rpc.ports import ClientStreamCall, Message
from highwater.rpc.status import Status, StatusCode
from tests.robustness.hop.partition_messages import STREAMS, UNARY, Hostile
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import PartitionNode, until
from tests.unit.hop.sinks import group_of
from tests.unit.partition.data_plane.node import EPOCH
from tests.unit.partition.data_plane.roles import NODE, image_says

_SHARE = 10
"""Of so many frames of the transport's fuzz test there is one message here: each costs as much."""
_FULL_RUN_S = 3_600
_HONEST = TopicId(b"the honest topic")
_HARMED = TopicId(b"hostiles' topic.")
_CALLS = 6
"""Hostile calls at a time."""
_END_S = 5.0
_FINE = {
    StatusCode.OK,
    StatusCode.INVALID_ARGUMENT,
    StatusCode.CANCELLED,
    StatusCode.INTERNAL,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.DEADLINE_EXCEEDED,
}
"""UNKNOWN would be a bug of a handler; UNAVAILABLE, or an end of the connection, one of the server."""


class Stream:
    """One call and what it heard."""

    def __init__(self, channel: Channel, method: str, timeout_s: float | None = None) -> None:
        self.messages: list[Message] = []
        self.status: Status | None = None
        self.call: ClientStreamCall = channel.stream(
            path_of(method),
            on_message=self.messages.append,
            on_end=self._ended,
            timeout_s=timeout_s,
        )

    def _ended(self, status: Status) -> None:
        self.status = status


class HonestPeer:
    """Appends and fetches over streams that stay open from beginning to end."""

    def __init__(self, address: str) -> None:
        self.channel = Channel(address)
        self.appends = Stream(self.channel, "Append")
        self.fetches = Stream(self.channel, "Fetch")
        self.sent = 0

    async def look(self) -> None:
        """One append, and all that is in the log by one fetch of its last records."""
        self.sent += 1
        batch = make_batch(value=b"honest %d" % self.sent)
        group = group_of(batch, topic_id=_HONEST, epoch=EPOCH, deadline_ms=1 << 40)
        self.appends.call.send(joined(encode_append(self.sent, [group], 0)))
        await self._heard(self.appends, self._is_appended)
        asked = FetchPartition(_HONEST, 0, EPOCH, self.sent - 1, -1, 1 << 20)
        work = FetchWork(
            instance=DEFAULT_INSTANCE,
            partitions=[asked],
            max_wait_ms=5_000,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            done=lambda _work: None,
        )
        work.call_id = self.sent
        self.fetches.call.send(encode_fetch([work], [], references=False))
        await self._heard(self.fetches, self._is_fetched)

    async def _heard(self, stream: Stream, done: object) -> None:
        assert callable(done)
        await until(lambda: stream.status is not None or done())
        assert stream.status is None, f"an honest stream has ended: {stream.status}"

    def _is_appended(self) -> bool:
        told = [decode_appended(message) for message in self.appends.messages]
        results = [result for one in told for result in one.results]
        if not results:
            return False
        assert [(r.message_id, list(r.base_offsets)) for r in results] == [
            (self.sent, [self.sent - 1])
        ]
        self.appends.messages.clear()
        return True

    def _is_fetched(self) -> bool:
        answers = [one for message in self.fetches.messages for one in parse_fetched(message)[0]]
        if not answers:
            return False
        [answer] = answers
        assert answer.call_id == self.sent
        assert b"honest %d" % self.sent in bytes(answer.payload)
        self.fetches.messages.clear()
        return True


class Attack:
    """Hostile calls of one connection, a few at a time."""

    def __init__(self, address: str, chance: random.Random) -> None:
        self._channel = Channel(address)
        self._chance = chance
        self._hostile = Hostile(chance, [_HARMED], EPOCH)
        self.sent = 0
        self.ends: dict[StatusCode, int] = {}

    async def run(self) -> None:
        """Some calls at once, all to their ends."""
        chance = self._chance
        methods = [chance.choice((*STREAMS, *STREAMS, *UNARY)) for _ in range(_CALLS)]
        calls = [(method, Stream(self._channel, method, _END_S)) for method in methods]
        for _ in range(chance.randint(1, 12)):
            method, stream = chance.choice(calls)
            self.sent += 1
            stream.call.send(self._hostile.message(method))
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        for _, stream in calls:
            if chance.random() < 0.3:
                stream.call.cancel()
            else:
                stream.call.half_close()
        # What waits for records or a coordinator would wait long: its client goes.
        with_end = asyncio.get_running_loop().time() + 0.05
        while asyncio.get_running_loop().time() < with_end:
            if all(stream.status is not None for _, stream in calls):
                break
            await asyncio.sleep(0.002)
        for method, stream in calls:
            if stream.status is None:
                stream.call.cancel()
            assert stream.status is not None
            code = stream.status.code
            assert code in _FINE, (method, stream.status)
            self.ends[code] = self.ends.get(code, 0) + 1

    async def close(self) -> None:
        await self._channel.close()


def _add_partitions(node: PartitionNode) -> None:
    node.add(0, topic_id=_HARMED)
    two = node.add(1, topic_id=_HARMED, lead=False)
    image_says(two, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    node.add(2, topic_id=_HARMED, lead=False)
    # Another directory: the names are those of one topic.
    directory, node.directory = node.directory, node.directory / "honest"
    node.directory.mkdir()
    node.add(0, topic_id=_HONEST)
    node.directory = directory


def _nothing_is_harmed(node: PartitionNode, honest: HonestPeer) -> None:
    assert node.stream_failures == [], "bugs of handlers"
    assert node.bugs == []
    assert node.log_failures == []
    assert node.plane.waiting_fetches == 0
    for (topic_id, partition), replica in node.plane.replicas.items():
        log = replica.log
        assert not replica.failed, (topic_id, partition)
        assert log.log_start_offset <= replica.core.high_watermark <= log.log_end_offset
    log = node.plane.replicas[_HONEST, 0].log
    assert (log.log_start_offset, log.log_end_offset) == (0, honest.sent)


def _logs_can_be_read_again(node: PartitionNode) -> None:
    for replica in node.plane.replicas.values():
        log = replica.log
        ends = (log.log_start_offset, log.log_end_offset)
        directory = log.directory
        log.close(clean=False)
        again = PartitionLog.open(
            directory,
            topic="orders",
            partition=replica.partition,
            config=LogConfig(),
            clock=node.clock,
            environment=InlineEnvironment(),
            clean=False,
            log_start_offset=ends[0],
        )
        assert (again.log_start_offset, again.log_end_offset) == ends
        again.close(clean=False)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[PartitionNode]:
    made = PartitionNode(tmp_path)
    _add_partitions(made)
    await made.start()
    yield made
    await made.kill()


@pytest.fixture
async def honest(node: PartitionNode) -> AsyncIterator[HonestPeer]:
    made = HonestPeer(f"127.0.0.1:{node.port}")
    yield made
    await made.channel.close()


@pytest.mark.timeout(_FULL_RUN_S)
async def test_hostile_messages(
    node: PartitionNode, honest: HonestPeer, seed: int, request: pytest.FixtureRequest
) -> None:
    messages = request.config.getoption("--fuzz-frames") // _SHARE
    first = number = request.config.getoption("--fuzz-first")
    ends: dict[StatusCode, int] = {}
    sent = 0
    while sent < messages:
        attack = Attack(f"127.0.0.1:{node.port}", random.Random(f"{seed}-service-{number}"))
        try:
            for _ in range(5):
                await attack.run()
            await honest.look()
            await attack.close()
            await until(lambda: not node.plane.waiting_fetches)
            _nothing_is_harmed(node, honest)
        except BaseException as error:
            error.add_note(f"repeat it alone: --seed {seed} --fuzz-first {number} --fuzz-frames 10")
            raise
        finally:
            await attack.close()
        sent += attack.sent
        for code, count in attack.ends.items():
            ends[code] = ends.get(code, 0) + count
        number += 1
    print(f"{sent} messages of {number - first} connections: {ends}")
    assert honest.appends.status is None
    assert honest.fetches.status is None
    if number - first > 20:
        assert ends[StatusCode.INVALID_ARGUMENT] > number - first
        assert ends[StatusCode.OK] > number - first
        assert node.plane.replicas[_HARMED, 0].log.log_end_offset > 0, "some were carried out"
    await honest.channel.close()
    await node.kill()
    _nothing_is_harmed(node, honest)
    _logs_can_be_read_again(node)


def _send_raw(stream: Stream, prefix: bytes, payload: bytes) -> None:
    """Payload that is no message, and the end of the client's side."""
    below: Any = stream.call
    below._stream.send(prefix, (payload,), len(prefix) + len(payload), True)


async def _end_of(stream: Stream) -> StatusCode:
    await until(lambda: stream.status is not None)
    assert stream.status is not None
    return stream.status.code


@pytest.mark.parametrize("method", [*STREAMS, *UNARY])
async def test_messages_that_are_too_long_or_have_no_end(
    node: PartitionNode, honest: HonestPeer, method: str
) -> None:
    channel = Channel(f"127.0.0.1:{node.port}")
    long, torn = Stream(channel, method), Stream(channel, method)
    await honest.look()
    _send_raw(long, PREFIX.pack(0, MESSAGE_BYTES_MAX + 1), b"x")
    assert await _end_of(long) is StatusCode.RESOURCE_EXHAUSTED
    _send_raw(torn, PREFIX.pack(0, 100), b"x" * 99)
    assert await _end_of(torn) is StatusCode.INTERNAL
    await honest.look()
    _nothing_is_harmed(node, honest)
    await channel.close()
