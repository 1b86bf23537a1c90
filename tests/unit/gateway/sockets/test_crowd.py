from types import SimpleNamespace

from highwater.gateway.sockets.crowd import Crowd


class Guest:
    def __init__(self, listener, host):
        self.client = SimpleNamespace(
            peer=SimpleNamespace(listener=listener), requester=SimpleNamespace(host=host)
        )


def test_guests_are_counted_once_as_they_come_and_go():
    crowd = Crowd(lambda one: one.client)
    one, two = Guest("a", "10.0.0.1"), Guest("b", "10.0.0.1")
    crowd.discard(one)
    for guest in (one, one, two):
        crowd.add(guest)
    assert (len(crowd), crowd.by("a"), crowd.by("b"), crowd.of("10.0.0.1")) == (2, 1, 1, 2)
    crowd.discard(one)
    crowd.discard(one)
    assert (crowd.by("a"), crowd.of("10.0.0.1"), set(crowd)) == (0, 1, {two})
    crowd.discard(two)
    assert not crowd._by
    assert not crowd._of
