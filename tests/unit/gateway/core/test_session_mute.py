"""A client over its quota: its connection is not read for the throttle time (KIP-219)."""

from tests.unit.gateway.core.session_world import PRODUCE, World, request


class MutedWire:
    """Adds `unmute_after` to a peer's wire and records its calls."""

    def __init__(self, peer):
        self.asked = []
        peer.wire.unmute_after = self.asked.append


def test_reply_leaves_at_once_and_the_connection_is_not_read_for_the_throttle_time():
    world = World()
    peer = world.connect()
    wire = MutedWire(peer)
    peer.feed(request(PRODUCE, 1))
    peer.answer(1)
    peer.session.mute(250)
    world.run()
    assert peer.text == "1;"
    assert wire.asked == [250]
    assert not peer.wire.reading

    peer.feed(request(PRODUCE, 2))
    assert peer.numbers == [1]
    peer.session.unmute()
    assert peer.wire.reading
    peer.feed(b"")
    assert peer.numbers == [1, 2]


def test_requests_read_before_the_mute_are_served():
    world = World()
    peer = world.connect()
    MutedWire(peer)
    peer.feed(request(PRODUCE, 1) + request(PRODUCE, 2))
    peer.answer(1)
    peer.session.mute(100)
    peer.answer(2)
    world.run()
    assert peer.text == "1;2;"
    assert not peer.wire.reading


def test_unmuting_does_not_overrule_other_reasons_not_to_read():
    world = World(in_flight_bytes_max=20)
    peer = world.connect()
    MutedWire(peer)
    peer.feed(request(PRODUCE, 1) + request(PRODUCE, 2))
    assert not peer.wire.reading
    peer.session.mute(100)
    peer.session.unmute()
    assert not peer.wire.reading
    peer.answer(1)
    assert peer.wire.reading


def test_closed_connection_is_not_muted():
    world = World()
    peer = world.connect()
    wire = MutedWire(peer)
    peer.feed(request(PRODUCE, 1))
    peer.lose()
    peer.session.mute(100)
    assert wire.asked == []
