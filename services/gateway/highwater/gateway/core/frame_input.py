"""Turns a connection's bytes into whole frames. One of the three machines of `session`.

All connections of a loop read small frames into one shared buffer, since a read and its parsing
happen in one call; only the rest of a cut frame is kept. A frame above `LARGE_FRAME` gets its own
buffer, which uses memory only as it is filled.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from highwater.gateway.core.reading import MEMORY_AWAITED
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.turn import NS_PER_MS
from highwater.model.uncleared_memory import uncleared

SETTLED_FRAME_BYTES: Final = 256 * 1024
"""Frames of this size do not wait for the end of the turn: their checksum is computed, and their
batches are written, while they are still in the processor's cache (1 MiB: 0.9 of the processor time)."""

SCARCE_READ: Final = 4 * 1024
"""Bytes per read while the memory budget is exhausted."""
HEADER_MIN: Final = 8

_unpack_size = Struct(">i").unpack_from


class FrameOwner(Protocol):
    """The part of the session that its input uses."""

    closed: bool
    frame_bytes_max: int
    """Larger frames close the connection; it may change between two frames."""
    arrived_ns: int
    """When the bytes of the last read arrived."""

    def start_one(self, frame: bytearray) -> None:
        """Takes a whole frame, the only one that a read completed. The budget has counted it."""
        ...

    def start_all(self, frames: list[bytearray], nbytes: int) -> None:
        """Takes whole small frames of `nbytes` in all, which the budget has counted."""
        ...

    def pause(self, reason: int) -> None:
        """Stops reading for this reason."""
        ...

    def resume(self, reason: int) -> None:
        """Removes this reason not to read."""
        ...

    def refuse_input(self, reason: str) -> None:
        """Closes the connection."""
        ...


class FrameInput:
    """Lives as long as its session. States: between frames, in a small frame (`_partial`), waiting
    for memory (`_memory_wait`), in a large frame (`_large`).
    """

    __slots__ = (
        "_large",
        "_large_filled",
        "_large_size",
        "_memory_wait",
        "_owner",
        "_partial",
        "_shared",
        "frames_received",
    )

    def __init__(self, owner: FrameOwner, shared: SharedInput) -> None:
        self._owner = owner
        self._shared = shared
        self._partial = b""
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_filled = 0
        self._memory_wait: Callable[[], None] | None = None
        self.frames_received = 0

    @property
    def mid_frame(self) -> bool:
        """True if part of a frame has arrived and the rest has not."""
        return bool(self._partial) or self._large is not None

    @property
    def in_large_frame(self) -> bool:
        """True if `get_buffer` gives memory of this connection alone, until the next `buffer_updated`."""
        return self._large is not None

    def get_buffer(self, _sizehint: int) -> memoryview:
        """The buffer for the next read (asyncio.BufferedProtocol)."""
        large = self._large
        if large is not None:
            return memoryview(large)[self._large_filled :]
        shared = self._shared
        partial = self._partial
        start = len(partial)
        if start:
            shared.buffer[:start] = partial
        if shared.budget.used >= shared.budget.scarce_at:
            return shared.view[start : start + SCARCE_READ]
        return shared.view[start:]

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was read: cuts out whole frames and starts them."""
        shared = self._shared
        owner = self._owner
        arrived_ns = shared.turn.arrived_ns
        if not arrived_ns:
            arrived_ns = shared.turn.begin()
            shared.now_ms = arrived_ns // NS_PER_MS
        owner.arrived_ns = arrived_ns
        if self._large is not None:
            self._take_large(self._large, nbytes)
            return
        buffer = shared.buffer
        view = shared.view
        large_frame = shared.large_frame
        end = len(self._partial) + nbytes
        (size,) = _unpack_size(buffer)
        if size == end - 4 and HEADER_MIN <= size <= large_frame:
            # One whole frame and nothing else, as in most reads.
            if self._partial:
                self._keep(b"", anew=True)
            self.frames_received += 1
            shared.budget.used += size
            owner.start_one(bytearray(view[4:end]))
            return
        position = 0
        charged = 0
        frames: list[bytearray] = []
        while end - position >= 4:
            (size,) = _unpack_size(buffer, position)
            stop = position + 4 + size
            if size > large_frame or size < HEADER_MIN:
                bad = not HEADER_MIN <= size <= owner.frame_bytes_max
                if bad or stop > end:
                    self._keep(b"", anew=True)
                    self._hand_over(frames, charged)
                    self._begin_large(size, view[position + 4 : end], bad=bad)
                    return
            if stop > end:
                break
            frames.append(bytearray(view[position + 4 : stop]))
            charged += size
            position = stop
        # When this call ends, other sessions use the shared buffer.
        if position < end:
            self._keep(bytes(view[position:end]), anew=position > 0)
        elif self._partial:
            self._keep(b"", anew=True)
        self._hand_over(frames, charged)

    def _hand_over(self, frames: list[bytearray], nbytes: int) -> None:
        self.frames_received += len(frames)
        self._shared.budget.used += nbytes
        self._owner.start_all(frames, nbytes)

    def _keep(self, partial: bytes, *, anew: bool) -> None:
        """Keeps the beginning of a small frame; `anew` if the last read began another."""
        if partial or self._partial:
            self._partial = partial
            self._shared.budget.hold_begun(self, len(partial), anew=anew)

    def give_up_begun(self) -> None:
        """Drops the oldest begun frame: other connections need the memory."""
        self._partial = b""
        self._owner.refuse_input("its frame was begun long ago and the memory is needed")

    def _begin_large(self, size: int, begun: memoryview, *, bad: bool) -> None:
        """Gets a buffer for a large frame once the budget has room for it.

        `begun` is what has come of it, in the shared buffer.
        """
        if bad:
            self._shared.meters.refused += 1
            limit = self._owner.frame_bytes_max
            self._owner.refuse_input(f"frame of {size} bytes, the limit is {limit}")
            return
        if self._owner.closed:
            return

        first: bytes | memoryview = begun

        def granted() -> None:
            large = uncleared(size)
            large[: len(first)] = first
            self._large = large
            self._large_size = size
            self._large_filled = len(first)
            self._memory_wait = None
            self._owner.resume(MEMORY_AWAITED)

        if self._shared.budget.reserve(size, granted):
            granted()
        else:
            first = bytes(begun)  # When this call ends, other sessions use the shared buffer.
            self._memory_wait = granted
            self._owner.pause(MEMORY_AWAITED)

    def _take_large(self, large: bytearray, nbytes: int) -> None:
        self._large_filled += nbytes
        if self._large_filled == self._large_size:
            self._large = None
            self.frames_received += 1
            self._owner.start_one(large)
            if self._large_size >= SETTLED_FRAME_BYTES:
                self._shared.turn.settle()

    def close(self) -> None:
        """The socket is gone: returns the memory of begun frames."""
        budget = self._shared.budget
        if self._memory_wait is not None:
            budget.withdraw(self._memory_wait)
            self._memory_wait = None
        if self._large is not None:
            budget.release(self._large_size)
            self._large = None
        self._keep(b"", anew=True)
