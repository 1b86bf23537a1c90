"""Watches against a scripted member; the contract tests use real servers."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from highwater.controller.store import etcd_watch
from highwater.controller.store.etcd_stubs import kv_pb2, rpc_pb2
from highwater.controller.store.etcd_watch import prefix_end, watch_prefix
from highwater.controller.store.port import CompactedError


def events(*revisions: int, header: int = 0) -> rpc_pb2.WatchResponse:
    return rpc_pb2.WatchResponse(
        header=rpc_pb2.ResponseHeader(revision=header or max(revisions, default=0)),
        events=[
            kv_pb2.Event(kv=kv_pb2.KeyValue(key=b"/n/w/%d" % r, mod_revision=r)) for r in revisions
        ],
    )


class ScriptedCall:
    """A stream that yields its responses, then ends or stays silent."""

    def __init__(self, lines: list[Any], *, silent: bool) -> None:
        self.lines = list(lines)
        self.silent = silent
        self.written: list[rpc_pb2.WatchRequest] = []
        self.cancelled = False

    async def write(self, request: rpc_pb2.WatchRequest) -> None:
        self.written.append(request)

    async def read(self) -> Any:
        if self.lines:
            return self.lines.pop(0)
        if self.silent:
            await asyncio.sleep(60)
        return grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it.

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedMembers:
    """Stands for EtcdMembers: each opened stream is the next call."""

    closed = False

    def __init__(self, *calls: ScriptedCall) -> None:
        self.calls = list(calls)
        self.opened: list[ScriptedCall] = []
        self.failures = 0

    def pick(self) -> "ScriptedMembers":
        return self

    def failed(self, _member: object) -> None:
        self.failures += 1

    async def stream_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("hasleader", "true"),)

    def watch_stub(self) -> "ScriptedMembers":
        return self

    def Watch(self, *, metadata: Any) -> ScriptedCall:
        assert ("hasleader", "true") in metadata
        self.opened.append(self.calls.pop(0))
        return self.opened[-1]


async def take(members: Any, count: int, start: int = 5) -> list[int]:
    seen: list[int] = []
    watch = watch_prefix(members, "/n/", "w/", start, on_header=lambda _: None)
    async with asyncio.timeout(5), contextlib.aclosing(watch):
        async for batch in watch:
            seen += [event.mod_revision for event in batch.events]
            if len(seen) >= count:
                break
    return seen


async def test_resumes_after_the_last_event_not_the_header() -> None:
    members = ScriptedMembers(
        ScriptedCall(
            [rpc_pb2.WatchResponse(created=True), events(5, 6, header=20_003)], silent=False
        ),
        ScriptedCall([events(7)], silent=True),
    )
    assert await take(members, 3) == [5, 6, 7]
    starts = [call.written[0].create_request.start_revision for call in members.opened]
    assert starts == [5, 7]
    assert all(call.cancelled for call in members.opened)


async def test_a_silent_member_is_probed_and_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_watch, "IDLE_S", 0.05)
    monkeypatch.setattr(etcd_watch, "SILENCE_S", 0.05)
    members = ScriptedMembers(ScriptedCall([], silent=True), ScriptedCall([events(5)], silent=True))
    assert await take(members, 1) == [5]
    assert members.opened[0].written[1].HasField("progress_request")
    assert members.failures == 1


async def test_events_are_not_delivered_twice() -> None:
    members = ScriptedMembers(
        ScriptedCall([events(5, 6)], silent=False), ScriptedCall([events(6, 7)], silent=True)
    )
    assert await take(members, 3) == [5, 6, 7]


async def test_compaction_raises_although_the_stream_stays_open() -> None:
    members = ScriptedMembers(
        ScriptedCall([rpc_pb2.WatchResponse(canceled=True, compact_revision=99)], silent=True)
    )
    with pytest.raises(CompactedError) as raised:
        await take(members, 1)
    assert raised.value.compact_revision == 99


async def test_a_cancelled_watch_is_opened_again() -> None:
    members = ScriptedMembers(
        ScriptedCall(
            [rpc_pb2.WatchResponse(canceled=True, cancel_reason="no leader")], silent=True
        ),
        ScriptedCall([events(5)], silent=True),
    )
    assert await take(members, 1) == [5]


async def test_deletions_and_keys() -> None:
    response = rpc_pb2.WatchResponse(
        events=[
            kv_pb2.Event(
                type=kv_pb2.Event.DELETE, kv=kv_pb2.KeyValue(key=b"/n/w/a", mod_revision=9)
            )
        ]
    )
    members: Any = ScriptedMembers(ScriptedCall([response], silent=True))
    headers: list[Any] = []
    watch = watch_prefix(members, "/n/", "w/", 1, on_header=headers.append)
    batch = await anext(watch)
    await watch.aclose()
    assert [(e.key, e.value) for e in batch.events] == [("w/a", None)]
    assert headers == [response.header]
    create = members.opened[0].written[0].create_request
    assert (create.key, create.range_end) == (b"/n/w/", b"/n/w0")


def test_prefix_end() -> None:
    assert prefix_end(b"a/") == b"a0"
