"""What is done with a connection of either end, and what must hold whatever it was fed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from highwater.http2.output import OUTGOING_BYTES
from highwater.http2.settings import LocalSettings
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.messages import UNSENT_BYTES_MAX, UNSENT_MESSAGES_MAX
from highwater.rpc.server_connection import ServerConnection
from tests.robustness.hop.frames import (
    CONTINUATION,
    END_HEADERS,
    PING,
    Frame,
    settings,
    window_update,
)
from tests.robustness.hop.socketless import Wire
from tests.robustness.hop.traffic import HONEST

MESSAGE_BYTES_MAX = 100_000
ASSEMBLY_BYTES_MAX = 2 * MESSAGE_BYTES_MAX
_LOOK = b"are you?"
_WINDOW = 200_000


class Examined:
    """One connection of the product, from its first frame to its end."""

    def __init__(
        self,
        connection: ClientConnection | ServerConnection,
        wire: Wire,
        local: LocalSettings,
        failures: list[tuple[str, BaseException]],
    ) -> None:
        """`failures` are those of handlers and callbacks, none of which fails by itself."""
        self._connection = connection
        self._wire = wire
        self._local = local
        self._failures = failures

    def look(self) -> None:
        """Limits that hold at any moment."""
        http2 = self._connection.http2
        assert 0 <= http2.held_bytes <= self._local.connection_window
        assert self._connection._assembly._left >= 0
        kept_bytes = 0
        for stream in http2._table.open.values():
            assert stream.unsent_bytes <= UNSENT_BYTES_MAX + MESSAGE_BYTES_MAX
            assert len(stream.pending) <= UNSENT_MESSAGES_MAX + 2
            kept_bytes += stream.unsent_bytes + len(stream.pending) * OUTGOING_BYTES
        assert http2.output.kept_bytes == kept_bytes
        self._no_bugs()

    async def settle(self, repair: Callable[[], None]) -> None:
        """Lets a slow reader read, and then whatever has waited for `repair` go on."""
        self._wire.pause(paused=False)
        await self._wire.turns()
        repair()
        await self._wire.turns()

    def repair(self, setting: tuple[int, int]) -> None:
        """Completes what was cut off, and opens the windows, as far as that is no violation.

        `setting` is announced as well.
        """
        wire, fed = self._wire, self._wire.fed
        if fed.missing or fed.header_bytes:
            wire.feed(bytes(fed.missing or 9 - fed.header_bytes))
            wire.feed(bytes(fed.missing))
        if fed.block_of and wire.alive():
            wire.feed(Frame(CONTINUATION, END_HEADERS, fed.block_of).packed())
        pairs = [(5, 16_384), setting]
        if fed.initial < _WINDOW:
            pairs.append((4, _WINDOW))
        wire.feed(settings(*pairs).packed())
        if fed.window - wire.written.data < _WINDOW:
            wire.feed(window_update(0, _WINDOW).packed())

    async def goes_on(
        self,
        *,
        drains: bool,
        honest_is_answered: Callable[[], None],
        good_call: Callable[[], Awaitable[str]],
    ) -> str:
        """The outcome of a connection that is alive after its repair: it must serve on."""
        wire = self._wire
        wire.feed(Frame(PING, 0, 0, _LOOK).packed())
        await wire.turns(lambda: not wire.alive() or _LOOK in wire.written.acked)
        if not wire.alive():
            wire.why_it_closed(drains=drains)
            return "goaway late"
        honest_is_answered()
        if drains:
            return "draining"
        return await good_call()

    def was_fed(self, honest: list[Frame]) -> bool:
        """Whether the honest stream came whole: no mutation has reached it, nor damage in front."""
        return [frame for frame in self._wire.fed.frames if frame.stream == HONEST] == honest

    def nothing_is_left(self) -> None:
        """After the end of the connection and of its calls."""
        assert self._connection.http2.held_bytes == 0
        assert self._connection._assembly._left == ASSEMBLY_BYTES_MAX
        self._no_bugs()

    def _no_bugs(self) -> None:
        for name, error in self._failures:
            raise AssertionError(f"{name} has failed") from error
