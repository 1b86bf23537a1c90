"""The channels of one process to partition nodes, and what they count, also when they are closed."""

from highwater.hop.settings import HopSettings
from highwater.hop.transport import HopChannel, OpenChannel, open_channel
from highwater.hop.unix_socket import is_private
from highwater.http2.counters import ConnectionCounters
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.inner import Inner
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.reports import OnFailure
from highwater.rpc.statistics import Statistics


class HopChannels:
    """Opens channels on one loop. Who opens one closes it here."""

    def __init__(self, make: OpenChannel) -> None:
        """`make` makes a channel to an address, see `transport.open_channel`."""
        self._make = make
        self._open: dict[HopChannel, None] = {}
        self._closed_opened = 0
        self._closed_totals = ConnectionCounters()

    def open(self, address: str, nearby: UnixAddress | None = None) -> HopChannel:
        """A channel to host:port, or to the node's unix socket while that can be reached."""
        channel = self._make(address, nearby)
        self._open[channel] = None
        return channel

    async def close(self, channel: HopChannel) -> None:
        """Cancels all calls of a channel and closes its connection; its counts are kept."""
        self._open.pop(channel, None)
        await channel.close()
        statistics = channel.statistics()
        if statistics is not None:
            self._closed_opened += statistics.connections_opened
            self._closed_totals.add(statistics.totals)

    def statistics(self) -> Statistics | None:
        """The sums over all channels, also former ones; None if the transport counts nothing."""
        living = [told for channel in self._open if (told := channel.statistics()) is not None]
        if self._open and not living:
            return None
        totals = ConnectionCounters()
        totals.add(self._closed_totals)
        for one in living:
            totals.add(one.totals)
        return Statistics(
            connections=sum(one.connections for one in living),
            unix_connections=sum(one.unix_connections for one in living),
            streams=sum(one.streams for one in living),
            held_bytes=sum(one.held_bytes for one in living),
            unsent_bytes=sum(one.unsent_bytes for one in living),
            connections_opened=self._closed_opened + sum(one.connections_opened for one in living),
            totals=totals,
        )


def hop_channels(
    settings: HopSettings, on_failure: OnFailure, inner: Inner | None = None
) -> HopChannels:
    """The channels of a process with these settings. `on_failure` takes the bugs of callbacks.

    `inner` says what nodes are shown and have to show; nothing without it.
    """
    shows = inner or Inner()
    memory = PeerMemory(settings.memory_bytes)

    def make(address: str, nearby: UnixAddress | None) -> HopChannel:
        if not settings.unix_sockets:
            nearby = None
        elif nearby is not None and not shows.is_open and not is_private(nearby):
            nearby = None  # Others could listen there, and would be shown the secret.
        return open_channel(
            address,
            settings.transport,
            on_failure,
            tls=shows.client_tls,
            proof=lambda: shows.proof,
            nearby=nearby,
            memory=memory,
        )

    return HopChannels(make)
