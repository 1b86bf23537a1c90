"""A small service on our server, and calls of our channel that a test can wait for."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvloop

from highwater.rpc.addresses import TcpAddress
from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from highwater.rpc.methods import Methods
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.server import RpcServer
from highwater.rpc.status import Status, StatusCode

SERVICE = "/demo.Demo"
WAIT_S = 10.0
DETAILS = "nicht möglich: 100%\n"


class Collected:
    """One call of our channel and all that it heard."""

    def __init__(self, channel: Any, method: str, **options: Any) -> None:
        self.messages: list[bytearray] = []
        self.opened = 0
        self.writable = 0
        self.status: Status | None = None
        self._changed = asyncio.Event()
        self.call = channel.stream(
            f"{SERVICE}/{method}",
            on_message=self._on_message,
            on_end=self._on_end,
            on_open=self._on_open,
            on_writable=self._on_writable,
            **options,
        )

    def _on_message(self, message: bytearray) -> None:
        self.messages.append(message)
        self._changed.set()

    def _on_end(self, status: Status) -> None:
        assert self.status is None, "on_end is called once"
        self.status = status
        self._changed.set()

    def _on_open(self) -> None:
        self.opened += 1
        self._changed.set()

    def _on_writable(self) -> None:
        self.writable += 1
        self._changed.set()

    async def until(self, done: Any) -> None:
        async with asyncio.timeout(WAIT_S):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    async def got(self, count: int) -> list[bytes]:
        """At least so many messages, or all until the end."""
        await self.until(lambda: len(self.messages) >= count or self.status is not None)
        return [bytes(message) for message in self.messages]

    async def over(self) -> Status:
        await self.until(lambda: self.status is not None)
        assert self.status is not None
        return self.status


class Demo:
    """Methods by name; `ends` has how each call ended."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, Status]] = []
        self.calls: list[Any] = []
        self.half_closes = 0
        self.failures: list[tuple[str, BaseException]] = []

    def add_to(self, methods: Methods) -> None:
        for name in ("Echo", "Fails", "Bug", "Silent", "Flood", "Slow", "Meta"):
            methods.add_stream(f"{SERVICE}/{name}", self._handler(name))
        methods.add_unary(f"{SERVICE}/Reverse", self._reverse, deserialize=bytes, serialize=bytes)
        methods.add_unary(f"{SERVICE}/Refuse", self._refuse, deserialize=bytes, serialize=bytes)
        methods.add_unary(f"{SERVICE}/Sleep", self._sleep, deserialize=bytes, serialize=bytes)

    def _handler(self, name: str) -> Any:
        def handle(call: Any) -> ServerCallbacks:
            self.calls.append(call)
            callbacks = getattr(self, f"_{name.lower()}")(call)
            return ServerCallbacks(
                **{
                    "on_message": lambda _message: None,
                    **callbacks,
                    "on_end": lambda status: self.ends.append((name, status)),
                }
            )

        return handle

    def _echo(self, call: Any) -> dict[str, Any]:
        call.send_initial_metadata([("first", "yes"), ("raw-bin", b"\x00\xff")])
        return {
            "on_message": lambda message: call.send([b"<", message, b">"]),
            "on_half_close": lambda: call.finish(metadata=[("last", "bye"), ("t-bin", b"\x01")]),
        }

    def _fails(self, call: Any) -> dict[str, Any]:
        return {
            "on_message": lambda _message: call.finish(
                StatusCode.FAILED_PRECONDITION, DETAILS, [("why", "x")]
            )
        }

    def _bug(self, _call: Any) -> dict[str, Any]:
        def fail(_message: Any) -> None:
            raise ZeroDivisionError

        return {"on_message": fail}

    def _silent(self, _call: Any) -> dict[str, Any]:
        def half_closed() -> None:
            self.half_closes += 1

        return {"on_half_close": half_closed}

    def _flood(self, call: Any) -> dict[str, Any]:
        """As many messages of 1 MiB as the first message says, as fast as the client takes them."""
        numbers: Iterator[int] = iter(())

        def go_on() -> None:
            while call.can_send():
                number = next(numbers, None)
                if number is None:
                    call.finish()
                    return
                call.send([number.to_bytes(4, "big"), bytes(1 << 20)])

        def flood(message: Any) -> None:
            nonlocal numbers
            numbers = iter(range(int(bytes(message))))
            go_on()

        return {"on_message": flood, "on_writable": go_on}

    def _slow(self, call: Any) -> dict[str, Any]:
        """Reads nothing until the test resumes it, then answers how much came."""
        got: list[int] = []
        call.pause_reading()

        def half_closed() -> None:
            call.send(str(len(got)).encode())
            call.finish()

        return {"on_message": lambda m: got.append(len(m)), "on_half_close": half_closed}

    def _meta(self, call: Any) -> dict[str, Any]:
        return {
            "on_half_close": lambda: call.finish(metadata=[("saw", repr(sorted(call.metadata)))])
        }

    async def _reverse(self, request: bytes, _call: Any) -> bytes:
        return request[::-1]

    async def _refuse(self, _request: bytes, _call: Any) -> bytes:
        raise RpcError(StatusCode.NOT_FOUND, DETAILS, [("why", "x")])

    async def _sleep(self, _request: bytes, call: Any) -> bytes:
        try:
            await asyncio.sleep(WAIT_S)
        except asyncio.CancelledError:
            self.ends.append(("Sleep", Status(StatusCode.CANCELLED)))
            raise
        return b""


async def start_demo(demo: Demo, **options: Any) -> RpcServer:
    """The service on a free port of loopback."""
    server = RpcServer(
        options.pop("address", TcpAddress("127.0.0.1", 0)),
        on_failure=lambda name, error: demo.failures.append((name, error)),
        **options,
    )
    demo.add_to(server.methods)
    await server.start()
    return server


async def unary(channel: Any, method: str, request: bytes, **options: Any) -> bytes:
    """A unary call of bytes."""
    answer: bytes = await channel.unary(
        f"{SERVICE}/{method}",
        request,
        serialize=bytes,
        deserialize=bytes,
        **{"timeout_s": WAIT_S, **options},
    )
    return answer


@contextlib.asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[dict[str, Any]]:
    """What tests call `demo`, `server` and `channel`, for a loop that is not pytest's."""
    demo = Demo()
    server = await start_demo(demo, **options)
    channel = Channel(server.address)
    try:
        yield {"demo": demo, "server": server, "channel": channel}
    finally:
        await channel.close()
        await server.stop(drain_s=0)


def run_on_uvloop(check: Any, things: Any, **more: Any) -> None:
    """Runs a test's coroutine on the loop that services use, with what it asks for by name."""

    async def run() -> None:
        async with asyncio.timeout(WAIT_S * 2), things() as named:
            known = {**named, **more}
            await check(**{name: known[name] for name in inspect.signature(check).parameters})

    uvloop.run(run())


async def eventually(done: Any) -> None:
    """Waits until something is so."""
    async with asyncio.timeout(WAIT_S):
        while not done():
            await asyncio.sleep(0.005)
