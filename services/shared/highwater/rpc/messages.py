"""Messages in a stream's payload: a byte for compression, four for the length, the message.

gRPC over HTTP2, "Length-Prefixed-Message". Hot path: a message that lies in the read buffer as a
whole is cut out of it by one copy; a large one gets its own memory at its prefix, and most of it is
received there in place.
"""

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from highwater.http2.ports import Buffer
from highwater.http2.stream import NOBODY, Stream
from highwater.model.uncleared_memory import uncleared
from highwater.rpc.message_memory import INBOX_MESSAGE_BYTES, AssemblyBudget
from highwater.rpc.status import StatusCode

PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = 5
IN_PLACE_BYTES_MIN: Final = 16 << 10
"""From here on a read of its own costs less than a copy."""
UNSENT_BYTES_MAX: Final = 16 << 20
"""Of one call, when its owner sends another message. If more waits, the peer has stalled, and the
call is given up; so a stalled peer holds so much and one message.

An owner that asks `can_send` sends while nothing waits, and only what it sends last can wait. That
may be as long as messages get: an append's one batch of a client's largest frame, or a coordinator's
reply of 100 MiB. Hence the bound is on what waits before it. An owner that does not ask has to limit
what is under way itself. The most by far of all streams are two answers of 8 MiB to a follower;
four messages of 1 MiB with appends, and the 2 MiB that a Fetch stream reads ahead, are less."""
UNSENT_MESSAGES_MAX: Final = 10_000
"""The same in messages: with what each costs beside its payload, this is as much memory."""
UNSENT_CONNECTION_BYTES_MAX: Final = 256 << 20
"""Memory of what waits in all calls of a connection, when the owner of any of them sends a message.
If more waits, that call is given up, whatever waits in it; so a peer that stalls with its 1,000
streams holds so much and one message. Two of the longest messages fit, since one may wait in each
of two calls, and what the other calls of a gateway or follower have under way beside them."""

_BUFFERS: Final = (bytes, bytearray, memoryview)
_pack: Final = PREFIX.pack
_unpack: Final = PREFIX.unpack_from


def send_message(
    stream: Stream, parts: Buffer | Sequence[Buffer], *, end_stream: bool = False
) -> None:
    """Sends one message of one or several buffers, which must not change until they have left."""
    if isinstance(parts, _BUFFERS):
        nbytes = len(parts)
        parts = (parts,)
    elif len(parts) == 1:
        nbytes = len(parts[0])
    else:
        nbytes = sum(map(len, parts))
    # Positional: a keyword costs as much as a window's check here.
    stream.send(_pack(0, nbytes), parts, nbytes + PREFIX_BYTES, end_stream)


def too_much_waits(stream: Stream) -> bool:
    """Whether a call whose owner sends another message is to be given up.

    To be asked only if the connection's `Output.kept_bytes` is not 0.
    """
    return (
        stream.unsent_bytes > UNSENT_BYTES_MAX
        or len(stream.pending) > UNSENT_MESSAGES_MAX
        or stream.output.kept_bytes > UNSENT_CONNECTION_BYTES_MAX
    )


class MessageReader:
    """The payload sink of one call: cuts messages out, and keeps them while reading is paused.

    `on_message` gets each message as a bytearray of its own, whose length cannot be changed before
    `on_message` has returned.
    """

    __slots__ = (
        "_assembly",
        "_at_end",
        "_bug",
        "_closed",
        "_delivering",
        "_end_due",
        "_filled",
        "_held",
        "_inbox",
        "_inbox_bytes",
        "_message",
        "_message_bytes_max",
        "_prefix",
        "_refuse",
        "_size",
        "_stream",
        "on_message",
        "paused",
    )

    def __init__(
        self,
        stream: Stream,
        *,
        message_bytes_max: int,
        assembly: AssemblyBudget,
        on_message: Callable[[bytearray], None],
        at_end: Callable[[], None],
        refuse: Callable[[StatusCode, str], None],
        bug: Callable[[Exception], None],
    ) -> None:
        """`at_end` is called after the last message, `refuse` for one that is not taken.

        `bug` gets what `on_message` raises. Both end the call, and close this reader.
        """
        self.on_message = on_message
        self.paused = False
        self._stream = stream
        self._message_bytes_max = message_bytes_max
        self._assembly = assembly
        self._at_end = at_end
        self._refuse = refuse
        self._bug = bug
        self._prefix = bytearray()
        self._message: bytearray | None = None
        self._size = 0
        self._filled = 0
        self._inbox: deque[bytearray] = deque()
        self._inbox_bytes = 0
        """Of it, as they are taken from the assembly's budget."""
        self._held = 0
        """Bytes that the peer's window lacks because of a pause."""
        self._delivering = False
        self._end_due = False
        self._closed = False

    # ---- PayloadSink ----

    def take(self, buffer: bytearray, start: int, end: int) -> None:
        """A piece of payload; usually it is exactly one message."""
        if self._message is None and not self._prefix:
            while not self.paused and end - start >= PREFIX_BYTES:
                compressed, size = _unpack(buffer, start)
                after = start + PREFIX_BYTES + size
                if after > end or compressed or size > self._message_bytes_max:
                    break
                try:
                    self.on_message(buffer[start + PREFIX_BYTES : after])
                except Exception as error:  # noqa: BLE001 - the owner's bug ends its call only.
                    self._bug(error)
                start = after
                if start == end or self._closed:
                    return
        if self._closed:
            return
        if self.paused:
            self._hold(end - start)
        self._take_pieces(buffer, start, end)

    def room(self, nbytes: int) -> memoryview | None:
        """The rest of a message under way, if it is worth a read of its own."""
        message = self._message
        if message is None or self._closed or self._size - self._filled < IN_PLACE_BYTES_MIN:
            return None
        until = min(self._size, self._filled + nbytes)
        return memoryview(message)[self._filled : until]

    def filled(self, nbytes: int) -> None:
        """Bytes have been received into `room`."""
        if self.paused:
            self._hold(nbytes)
        self._advance(nbytes)

    # ---- pieces ----

    def _take_pieces(self, buffer: bytearray, start: int, end: int) -> None:
        while start < end and not self._closed:
            message = self._message
            if message is None:
                nbytes = min(PREFIX_BYTES - len(self._prefix), end - start)
                self._prefix += buffer[start : start + nbytes]
                if len(self._prefix) == PREFIX_BYTES:
                    self._begin()
            else:
                nbytes = min(self._size - self._filled, end - start)
                filled = self._filled
                message[filled : filled + nbytes] = memoryview(buffer)[start : start + nbytes]
                self._advance(nbytes)
            start += nbytes

    def _begin(self) -> None:
        """A prefix is complete."""
        compressed, size = _unpack(self._prefix)
        self._prefix.clear()
        if compressed:
            self._refuse(StatusCode.UNIMPLEMENTED, "compressed messages are not supported")
        elif size > self._message_bytes_max:
            self._refuse(
                StatusCode.RESOURCE_EXHAUSTED,
                f"a message of {size} bytes, more than {self._message_bytes_max}",
            )
        elif not size:
            self._deliver(bytearray())
        elif not self._assembly.take(size):
            self._refuse(StatusCode.RESOURCE_EXHAUSTED, "too many large messages at a time")
        else:
            try:
                self._message = uncleared(size)
            except MemoryError:
                self._assembly.give(size)
                self._refuse(StatusCode.RESOURCE_EXHAUSTED, f"no memory for {size} bytes")
            self._size = size
            self._filled = 0

    def _advance(self, nbytes: int) -> None:
        self._filled += nbytes
        message = self._message
        if message is not None and self._filled == self._size:
            self._message = None
            self._assembly.give(self._size)
            self._deliver(message)

    def _deliver(self, message: bytearray) -> None:
        if self.paused or self._inbox:
            self._wait(message)
        elif not self._closed:
            try:
                self.on_message(message)
            except Exception as error:  # noqa: BLE001 - the owner's bug ends its call only.
                self._bug(error)

    # ---- pauses and ends ----

    def _wait(self, message: bytearray) -> None:
        nbytes = len(message) + INBOX_MESSAGE_BYTES
        if self._assembly.take(nbytes):
            self._inbox_bytes += nbytes
            self._inbox.append(message)
        else:
            self._refuse(StatusCode.RESOURCE_EXHAUSTED, "too many messages wait to be read")

    def _took(self, message: bytearray) -> None:
        """A message has left the inbox."""
        nbytes = len(message) + INBOX_MESSAGE_BYTES
        self._inbox_bytes -= nbytes
        self._assembly.give(nbytes)

    def _hold(self, nbytes: int) -> None:
        self._held += nbytes
        self._stream.hold(nbytes)

    def _release(self, nbytes: int) -> None:
        nbytes = min(nbytes, self._held)
        if nbytes:
            self._held -= nbytes
            self._stream.release(nbytes)

    def pause(self) -> None:
        """Keeps further messages here, and the peer's window from being given back."""
        self.paused = True

    def resume(self) -> None:
        """Hands on what has come meanwhile, at once, unless it is paused again."""
        self.paused = False
        if self._delivering:
            return  # Called by `on_message`: the loop below goes on.
        self._delivering = True
        while self._inbox and not self.paused and not self._closed:
            message = self._inbox.popleft()
            self._took(message)
            try:
                self.on_message(message)
            except Exception as error:  # noqa: BLE001 - the owner's bug ends its call only.
                self._bug(error)
            self._release(len(message) + PREFIX_BYTES)
        self._delivering = False
        if not self.paused and not self._closed:
            self._release(self._held)
            if self._end_due:
                self._end_due = False
                self._at_end()

    def end(self) -> None:
        """The peer has ended its side; `at_end` follows when all messages are handed on."""
        if self._closed:
            return
        if self._message is not None or self._prefix:
            self._refuse(StatusCode.INTERNAL, "the stream ended inside a message")
            return
        if self._inbox:
            self._end_due = True
        else:
            self._at_end()

    def close(self) -> None:
        """Drops everything; nothing is handed on any more."""
        if self._closed:
            return
        self._closed = True
        self._stream.payload = NOBODY
        self._inbox.clear()
        self._assembly.give(self._inbox_bytes)
        self._inbox_bytes = 0
        if self._message is not None:
            self._message = None
            self._assembly.give(self._size)
        self._release(self._held)
