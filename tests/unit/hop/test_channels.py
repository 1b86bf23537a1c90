"""A process's channels to nodes, and their counts."""

import pytest

from highwater.hop.channels import HopChannels, hop_channels
from highwater.hop.settings import HopSettings
from highwater.http2.counters import ConnectionCounters
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.inner import Inner
from highwater.rpc.statistics import Statistics
from highwater.runtime.inner_settings import InnerSettings
from tests.support.fake_calls import FakeChannel


class Counting(FakeChannel):
    """Tells numbers that are multiples of one."""

    number = 1

    def statistics(self):
        n = self.number
        return Statistics(
            connections=0 if self.is_closed else n,
            unix_connections=0 if self.is_closed else 7 * n,
            streams=0 if self.is_closed else 2 * n,
            held_bytes=0,
            unsent_bytes=3 * n,
            connections_opened=4 * n,
            totals=ConnectionCounters(bytes_sent=5 * n, stalls=6 * n),
        )


async def test_channels_are_opened_and_closed():
    channels = HopChannels(FakeChannel)
    one = channels.open("a:1")
    assert one.address == "a:1"
    assert channels.statistics() is None, "these tell nothing"
    await channels.close(one)
    assert one.is_closed


async def test_counts_are_added_up_and_kept():
    channels = HopChannels(Counting)
    one, two = channels.open("a:1"), channels.open("b:2")
    two.number = 10
    told = channels.statistics()
    assert (told.connections, told.streams, told.unsent_bytes) == (11, 22, 33)
    assert told.unix_connections == 77
    assert (told.connections_opened, told.totals.bytes_sent, told.totals.stalls) == (44, 55, 66)
    await channels.close(two)
    await channels.close(one)
    told = channels.statistics()
    assert (told.connections, told.streams, told.unsent_bytes) == (0, 0, 0)
    assert (told.connections_opened, told.totals.bytes_sent, told.totals.stalls) == (44, 55, 66)


@pytest.mark.parametrize("wanted", [True, False])
async def test_unix_sockets_may_be_switched_off(wanted):
    channels = hop_channels(HopSettings(unix_sockets=wanted), lambda _name, _error: None)
    address = UnixAddress("/nowhere")
    channel = channels.open("127.0.0.1:1", address)
    assert channel._nearby == (address if wanted else None)
    await channels.close(channel)


@pytest.mark.parametrize(("mode", "taken"), [(0o755, True), (0o775, False)])
async def test_a_secret_is_shown_only_to_sockets_that_nobody_else_could_put_there(
    tmp_path, mode, taken
):
    secret = tmp_path / "secret"
    secret.write_text("s" * 20)
    directory = tmp_path / "node"
    directory.mkdir()
    directory.chmod(mode)
    address = UnixAddress(str(directory / "socket"))
    inner = Inner(InnerSettings(secret_file=secret))
    for shows, expected in ((inner, taken), (None, True)):
        channels = hop_channels(HopSettings(), lambda _name, _error: None, shows)
        channel = channels.open("127.0.0.1:1", address)
        assert channel._nearby == (address if expected else None)
        await channels.close(channel)
