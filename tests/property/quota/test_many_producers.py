"""An instance's produce limit at one node holds for any number of connections, and all of it is used.

Clients are simulated: each connection has some requests in flight, sends the next one when one is
answered, and nothing while it is muted. What is refused it sends again.
"""

from collections import deque

from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater.hop.append import AppendGroup
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.data_plane.held_appends import INSTANCE_BYTES_MAX, HeldAppends
from highwater.partition.quota.meter import NodeMeters, ShareOfNode
from tests.support.timers import Timers

INSTANCE = InstanceId("busy")
TOPIC = TopicId(b"t" * 16)
NETWORK_MS = 1
WARM_UP_MS = 15_000
MEASURED_MS = 30_000
WINDOW_MS = 10_000


class Connection:
    """One client connection; the owner of its groups."""

    def __init__(self, world, number, size, in_flight):
        self._world = world
        self._number = number
        self._size = size
        self._muted_until_ms = 0
        for _ in range(in_flight):
            world.timers.call_later(0, self.send)

    def send(self):
        left_ms = self._muted_until_ms - self._world.timers.now_ms
        if left_ms > 0:
            self._world.timers.call_later(left_ms / 1000, self.send)
            return
        group = AppendGroup(TOPIC, self._number, 0, 1, INSTANCE, self)
        group.batches.append(b"")
        group.nbytes = self._size
        self._world.held.append(self._world.meters.by_instance[INSTANCE], group)

    def take_result(self, group, _base_offsets, failures):
        self._world.refused += failures is not None
        muted_until_ms = self._world.timers.now_ms + group.throttle_ms
        self._muted_until_ms = max(self._muted_until_ms, muted_until_ms)
        self._world.timers.call_later(NETWORK_MS / 1000, self.send)
        return True


class World:
    def __init__(self, limit):
        self.timers = Timers()
        self.meters = NodeMeters(lambda: self.timers.now_ms)
        share = ShareOfNode(instance=INSTANCE, produce=limit, consume=None, produce_floor=limit)
        self.meters.take([share], 1 << 40)
        self.held = HeldAppends(
            self.timers.call_later,
            self._append,
            lambda group, failure: group.fail(failure),
            lambda _group: None,
        )
        self.passed = []
        self.refused = 0

    def _append(self, group):
        self.passed.append((self.timers.now_ms, group.nbytes))
        group.complete([0])


def greatest_window(passed):
    """The most bytes in any `WINDOW_MS`."""
    window, total, most = deque(), 0, 0
    for at_ms, nbytes in passed:
        window.append((at_ms, nbytes))
        total += nbytes
        while window[0][0] <= at_ms - WINDOW_MS:
            total -= window.popleft()[1]
        most = max(most, total)
    return most


@settings(max_examples=15)
@given(
    connections=st.sampled_from([1, 2, 7, 50, 500]),
    in_flight=st.sampled_from([1, 5]),
    size=st.sampled_from([20_000, 200_000, 1_000_000]),
    limit=st.sampled_from([1_000_000, 5_000_000, 20_000_000]),
)
@example(connections=500, in_flight=1, size=1_000_000, limit=1_000_000)
@example(connections=1, in_flight=5, size=1_000_000, limit=1_000_000)
def test_the_limit_holds_for_any_number_of_connections(connections, in_flight, size, limit):
    world = World(limit)
    for number in range(connections):
        Connection(world, number, size, in_flight)
    world.timers.advance(WARM_UP_MS + MEASURED_MS)
    # A request is not divided, and a bucket holds a tenth of a second.
    most = limit * WINDOW_MS / 1000 + max(limit / 10, size)
    assert greatest_window(world.passed) <= most
    if size <= limit / 5:
        assert greatest_window(world.passed) <= 1.02 * limit * WINDOW_MS / 1000
    used = sum(nbytes for at_ms, nbytes in world.passed if at_ms >= WARM_UP_MS)
    # One small request in flight at a time may be less than the limit.
    offered = connections * in_flight * size / ((NETWORK_MS + 1) / 1000)
    assert used >= 0.95 * min(limit, offered) * MEASURED_MS / 1000 - size
    if connections * in_flight * size <= min(10 * limit, INSTANCE_BYTES_MAX):
        assert world.refused == 0
