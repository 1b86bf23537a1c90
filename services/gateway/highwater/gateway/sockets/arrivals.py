"""Connections that have come and are not taken yet: those that wait their turn, and those that are too many.

    what the client is over                       what happens
    connection_creation_rate of its address       it waits, at most a window, and is closed (KIP-612)
    max.connections.per.ip                        it is closed
    max.connection.creation.rate, max.connections it waits until there is room, and comes in

Nothing is read from who waits, not even a handshake. As Kafka's acceptors do, each listener takes one after
the other, and the next one waits for the rate and for room; where Kafka lets the others wait unaccepted, they
are here, and instances take turns, so that one tenant's flood does not hold up the others.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

from highwater.gateway.quota.core.connection_limits import ConnectionTurns
from highwater.gateway.quota.core.connection_rates import ConnectionRates
from highwater.model.ids import InstanceId
from highwater.model.networks import canonical_address
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger
from highwater.runtime.proxy_protocol import ProxiedClient

HELD_MAX: Final = 1_000
"""Connections that wait to be closed, at a time; further ones are closed at once. Each takes a descriptor."""
WAITING_MAX: Final = 1_000
"""Connections that wait to come in; further ones are closed at once."""
WAITING_OF_INSTANCE_MAX: Final = 250
"""Of these, by the ports of one instance."""
WAIT_S_MAX: Final = 30.0
"""Who waits longer is closed: clients have given up by then (socket.connection.setup.timeout.max.ms)."""
ROOM_LOOK_MS: Final = 20
"""How often it is looked whether somebody has left."""
_MS: Final = 1000


class Timer(Protocol):
    """A call that is due."""

    def cancel(self) -> None:
        """It is not needed any more."""
        ...


class Arrivals:
    """See the module. Lives as long as the gateway's listener."""

    def __init__(
        self,
        rates: ConnectionRates,
        turns: ConnectionTurns,
        *,
        now_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], Timer],
        log: Logger,
    ) -> None:
        """`rates` are those of addresses, `turns` those of the gateway and its listeners."""
        self._rates = rates
        self._turns = turns
        self._now_ms = now_ms
        self._call_later = call_later
        self._log = log
        self._lines: dict[str, _Line] = {}
        self._log_limit = LogLimit(now_ms)
        self.waiting: set[Arrival] = set()
        """Those who may come in later."""
        self.held: set[Arrival] = set()
        """Those who are closed later."""
        self.throttled = 0
        """How many were over the rate of their address, with those that were closed at once."""
        self.delayed = 0
        """How many had to wait for their turn."""
        self.refused = 0
        """How many were closed because their address has too many, or too many wait."""

    def __len__(self) -> int:
        """How many are here."""
        return len(self.waiting) + len(self.held)

    @property
    def limited(self) -> bool:
        """True if some connections may not come in at once. All others need not come here."""
        limits = self._turns.limits
        return bool(self._rates.limits) or limits.waits or limits.refuses

    def came(self, arrival: "Arrival") -> None:
        """Lets a connection in, now or later, or closes it."""
        hold_ms = self._rates.hold_ms(arrival.instance, arrival.host)
        if hold_ms:
            self._hold(arrival, hold_ms)
        elif not self._turns.takes_of(canonical_address(arrival.host)):
            self._refuse(arrival, "its address has as many connections as it may have")
        elif self._turns.limits.waits:
            self._queue(arrival)
        else:
            arrival.go()

    def gone(self, arrival: "Arrival") -> None:
        """It has come in, or is closed."""
        self.held.discard(arrival)
        if arrival in self.waiting:
            self.waiting.discard(arrival)
            self._lines[arrival.listener].discard(arrival)

    def close(self) -> None:
        """Closes all who are here."""
        for line in self._lines.values():
            line.stop()
        for arrival in [*self.waiting, *self.held]:
            arrival.end()

    def _hold(self, arrival: "Arrival", ms: int) -> None:
        self.throttled += 1
        if len(self.held) >= HELD_MAX:
            arrival.end()
            return
        self.held.add(arrival)
        # At once its client would come again at once.
        arrival.due = self._call_later(ms / _MS, arrival.end)

    def _queue(self, arrival: "Arrival") -> None:
        line = self._lines.setdefault(arrival.listener, _Line(arrival.listener))
        if len(self.waiting) >= WAITING_MAX or line.number_of(arrival) >= WAITING_OF_INSTANCE_MAX:
            self._refuse(arrival, "as many connections wait as may")
            return
        self.waiting.add(arrival)
        line.add(arrival)
        if line.timer is None:
            self._advance(line)
        if not arrival.over:
            self.delayed += 1
            arrival.due = self._call_later(WAIT_S_MAX, lambda: self._tire(arrival))

    def _tire(self, arrival: "Arrival") -> None:
        self._refuse(arrival, "there was no room for too long")

    def _refuse(self, arrival: "Arrival", reason: str) -> None:
        self.refused += 1
        self._log_limit.write(
            self._log.warning,
            "client_refused",
            kind=arrival.instance,
            instance=arrival.instance,
            listener=arrival.listener,
            host=arrival.host,
            reason=reason,
        )
        arrival.end()

    def _advance(self, line: "_Line") -> None:
        """Lets in who may, and looks again when the next one may."""
        line.timer = None
        now_ms = self._now_ms()
        while True:
            if line.next is None:
                line.next = line.take()
                if line.next is None:
                    return
                line.until_ms = now_ms + self._turns.wait_ms(line.listener, now_ms)
            wait_ms = max(0, line.until_ms - now_ms)
            if not wait_ms and not self._turns.has_room(line.listener):
                wait_ms = ROOM_LOOK_MS
            if wait_ms:
                line.timer = self._call_later(wait_ms / _MS, lambda: self._advance(line))
                return
            arrival, line.next = line.next, None
            if self._turns.takes_of(canonical_address(arrival.host)):
                arrival.go()
            else:
                self._refuse(arrival, "its address has as many connections as it may have")


class _Line:
    """Those who wait at a listener, by turns of their instances."""

    def __init__(self, listener: str) -> None:
        self.listener = listener
        self.next: Arrival | None = None
        """Who is counted in the rates, and waits for what is left of its time, and then for room."""
        self.until_ms = 0
        self.timer: Timer | None = None
        self._queues: dict[InstanceId, deque[Arrival]] = {}
        """None is empty; whose turn is next comes first."""

    def add(self, arrival: "Arrival") -> None:
        """It is the last one of its instance."""
        self._queues.setdefault(arrival.instance, deque()).append(arrival)

    def discard(self, arrival: "Arrival") -> None:
        """It has gone, or come in."""
        if self.next is arrival:
            self.next = None
        queue = self._queues.get(arrival.instance)
        if queue is not None and arrival in queue:
            queue.remove(arrival)
            if not queue:
                del self._queues[arrival.instance]

    def number_of(self, arrival: "Arrival") -> int:
        """How many wait of its instance."""
        return len(self._queues.get(arrival.instance, ()))

    def take(self) -> "Arrival | None":
        """The next one; None if nobody waits."""
        if not self._queues:
            return None
        instance, queue = next(iter(self._queues.items()))
        arrival = queue.popleft()
        del self._queues[instance]
        if queue:
            self._queues[instance] = queue  # Behind all others.
        return arrival

    def stop(self) -> None:
        """Nobody is let in any more."""
        if self.timer is not None:
            self.timer.cancel()
        self._queues.clear()
        self.next = None


class Arrival(asyncio.BufferedProtocol):
    """The protocol of a socket until its client may come in."""

    def __init__(
        self,
        arrivals: Arrivals,
        begin: Callable[[ProxiedClient | None], asyncio.BufferedProtocol],
        *,
        listener: str,
        instance: InstanceId,
        client: ProxiedClient | None,
        lets_in: Callable[[str], bool],
    ) -> None:
        """`begin` makes the protocol that comes after this one. `client` is the one that a balancer has named;
        None if it is the socket's peer. `lets_in` is asked first, with the client's address.
        """
        self.listener = listener
        self.instance = instance
        self.over = False
        """It has come in, or is closed."""
        self.due: Timer | None = None
        """What happens if it waits for too long."""
        self._arrivals = arrivals
        self._begin = begin
        self._client = client
        self._lets_in = lets_in
        self._transport: asyncio.Transport
        self._early = bytearray(1)
        """What is read before reading stops, a byte at most: a transport begins to read after
        `connection_made`, whatever it is told in there.
        """
        self._filled = 0
        self._paused = False

    @property
    def host(self) -> str:
        """The client's address."""
        return "" if self._client is None else self._client.host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the socket."""
        self._transport = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if self._client is None and isinstance(name, tuple):
            self._client = ProxiedClient(name[0], name[1])
        if not self._lets_in(self.host):
            self.end()
            return
        self._arrivals.came(self)
        if not self.over:
            self._pause()
            asyncio.get_running_loop().call_soon(self._pause)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """A buffer for what comes early."""
        return memoryview(self._early)

    def buffer_updated(self, nbytes: int) -> None:
        """Keeps it."""
        self._filled = nbytes
        self._pause()

    def eof_received(self) -> bool:
        """Closes: the client has given up."""
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """The socket is closed."""
        self._finish()

    def go(self) -> None:
        """The client comes in."""
        self._finish()
        transport = self._transport
        if transport.is_closing():
            return
        protocol = self._begin(self._client)
        transport.set_protocol(protocol)
        if self._paused:
            transport.resume_reading()
        protocol.connection_made(transport)
        if self._filled and not transport.is_closing():
            memoryview(protocol.get_buffer(-1))[:1] = self._early
            protocol.buffer_updated(1)

    def end(self) -> None:
        """Closes."""
        self._finish()
        self._transport.abort()

    def _pause(self) -> None:
        if not self.over and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _finish(self) -> None:
        self.over = True
        self._arrivals.gone(self)
        if self.due is not None:
            self.due.cancel()
            self.due = None
