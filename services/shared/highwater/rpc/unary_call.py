"""A client's call with one request and one response, for callers that await it."""

import asyncio

from highwater.rpc.client_call import ClientCall
from highwater.rpc.errors import RpcError
from highwater.rpc.ports import Message
from highwater.rpc.status import Status, StatusCode


class UnaryCall:
    """Gathers one response. Its methods are the callbacks of a stream."""

    __slots__ = ("_call", "_messages", "_result")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call: ClientCall | None = None
        self._messages: list[Message] = []
        self._result: asyncio.Future[Status] = loop.create_future()

    def begin(self, call: ClientCall, message: bytes) -> None:
        """Sends the request."""
        self._call = call
        call.send(message)
        call.half_close()

    @property
    def unprocessed(self) -> bool:
        """After the end: the peer certainly did not handle the call."""
        return self._call is not None and self._call.unprocessed

    def on_message(self, message: Message) -> None:
        """The response; there must be one."""
        self._messages.append(message)
        if len(self._messages) > 1 and self._call is not None:
            self._call.fail(StatusCode.INTERNAL, "two responses to a unary call")

    def on_end(self, status: Status) -> None:
        """The end, whoever waits for it."""
        if not self._result.done():
            self._result.set_result(status)

    async def response(self) -> bytearray:
        """Waits for the response. Raises RpcError. The call is cancelled with its waiter."""
        try:
            status = await self._result
        except asyncio.CancelledError:
            if self._call is not None:
                self._call.cancel()
            raise
        if status.code is not StatusCode.OK:
            raise RpcError.of(status)
        if not self._messages:
            raise RpcError(StatusCode.INTERNAL, "no response to a unary call")
        message = self._messages[0]
        return message if isinstance(message, bytearray) else bytearray(message)
