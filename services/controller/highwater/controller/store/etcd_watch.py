"""Watches on etcd that neither lose events nor hang on a silent member.

The library's watches do not notice a paused or partitioned member, and resume wrongly. So these
run on the stubs directly. `hasleader` makes a member without a leader end the stream. After an
idle second, the member is asked for a progress report, and left after another silent second. A
watch resumes after the last event it has seen. The revision in a response's header says nothing
about the events: it runs ahead of them while a watch catches up.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import grpc

from highwater.controller.store.etcd_members import EtcdMember, EtcdMembers
from highwater.controller.store.etcd_stubs import kv_pb2, rpc_pb2
from highwater.controller.store.port import CompactedError, WatchBatch, WatchEvent
from highwater.runtime.tasks import TaskOwner

IDLE_S: Final = 1.0
"""After so long without a response, the member is asked for one."""

SILENCE_S: Final = 1.0
"""After so long without an answer to that, the watch leaves the member."""

RETRY_S: Final = 0.1


class _SilentMemberError(Exception):
    """The member does not answer on an open stream."""


class _EndedByServerError(Exception):
    """The member ended the watch for a reason other than compaction."""


async def watch_prefix(
    members: EtcdMembers,
    namespace: str,
    prefix: str,
    from_revision: int,
    *,
    on_header: Callable[[Any], object],
) -> AsyncGenerator[WatchBatch, None]:
    """Events under `namespace + prefix`, with the namespace taken off; ends when `members` close.

    `on_header` gets the header of every response. Raises CompactedError.
    """
    next_revision = from_revision
    # The loop below awaits each read and sees its error, so nothing else reports it.
    readers = TaskOwner(lambda _name, _error: None)
    try:
        while not members.closed:
            member = members.pick()
            try:
                stream = _one_stream(member, readers, namespace + prefix, next_revision)
                async with contextlib.aclosing(stream):
                    async for response in stream:
                        on_header(response.header)
                        batch = _batch(response, namespace, next_revision)
                        if batch is not None:
                            next_revision = batch.revision + 1
                            yield batch
            except (grpc.RpcError, _SilentMemberError, _EndedByServerError):
                members.failed(member)
            await asyncio.sleep(RETRY_S)
    finally:
        await readers.close(timeout_s=SILENCE_S)


async def _one_stream(
    member: EtcdMember, readers: TaskOwner, key: str, from_revision: int
) -> AsyncGenerator[rpc_pb2.WatchResponse, None]:
    """The responses of one watch on one member, until it fails or falls silent."""
    metadata = await member.stream_metadata()
    call = member.watch_stub().Watch(metadata=metadata)
    reading: asyncio.Task[Any] | None = None
    try:
        await _write(call, _create_request(key, from_revision))
        while True:
            # A timeout around read() would cancel the whole call, so the read is a task.
            reading = readers.start(call.read(), name="etcd-watch-read")
            await _wait_for_response(call, reading)
            if reading.cancelled():
                raise _EndedByServerError("the channel was closed")
            response = reading.result()
            if response is grpc.aio.EOF:
                raise _EndedByServerError("the member closed the stream")
            yield response
    finally:
        call.cancel()
        if reading is not None:
            reading.cancel()
            await asyncio.wait((reading,))


async def _wait_for_response(call: Any, reading: "asyncio.Task[Any]") -> None:
    done, _ = await asyncio.wait((reading,), timeout=IDLE_S)
    if done:
        return
    progress = rpc_pb2.WatchRequest(progress_request=rpc_pb2.WatchProgressRequest())
    await _write(call, progress)
    done, _ = await asyncio.wait((reading,), timeout=SILENCE_S)
    if not done:
        raise _SilentMemberError("no response to a progress request")


async def _write(call: Any, request: rpc_pb2.WatchRequest) -> None:
    try:
        async with asyncio.timeout(SILENCE_S):
            await call.write(request)
    except TimeoutError:
        raise _SilentMemberError("a request cannot be written") from None
    except asyncio.InvalidStateError:
        # The call has ended; its status says more than the failed write.
        raise _EndedByServerError(str(await call.details())) from None


def _create_request(key: str, from_revision: int) -> rpc_pb2.WatchRequest:
    start = key.encode()
    return rpc_pb2.WatchRequest(
        create_request=rpc_pb2.WatchCreateRequest(
            key=start, range_end=prefix_end(start), start_revision=from_revision
        )
    )


def _batch(
    response: rpc_pb2.WatchResponse, namespace: str, from_revision: int
) -> WatchBatch | None:
    if response.compact_revision:
        raise CompactedError(response.compact_revision)
    if response.canceled:
        raise _EndedByServerError(response.cancel_reason)
    events = tuple(
        WatchEvent(
            key=event.kv.key.decode().removeprefix(namespace),
            value=None if event.type == kv_pb2.Event.DELETE else event.kv.value,
            mod_revision=event.kv.mod_revision,
        )
        for event in response.events
        if event.kv.mod_revision >= from_revision
    )
    return WatchBatch(revision=events[-1].mod_revision, events=events) if events else None


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all that start with the prefix, as etcd's `range_end`."""
    assert prefix
    assert prefix[-1] < 0xFF
    return prefix[:-1] + bytes([prefix[-1] + 1])
