"""Instances with limits in the data plane; other instances cost one look into a table."""

from types import SimpleNamespace

import pytest

from highwater.hop.append import AppendGroup
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchWork
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.waiters import Waiters
from tests.unit.hop.sinks import Owner

TOPIC = TopicId(b"t" * 16)
LIMITED = InstanceId("limited")
FREE = InstanceId("free")


class Meter:
    """Gives the answers that the test sets, and records the calls."""

    def __init__(self):
        self.hold_ms = 0
        self.bytes_max = 1 << 30
        self.charged = []
        self.why = ""
        self.held_bytes = 0
        self.on_share = None
        self.produce_ms = 0

    def now_ms(self):
        return 0

    def produce_hold_ms(self, _nbytes):
        return self.produce_ms

    def refused(self, _nbytes):
        return 60

    def refuses_produce(self):
        return self.why

    def produced(self, nbytes):
        self.charged.append(("produce", nbytes))
        return 40

    def fetch_hold_ms(self):
        return self.hold_ms

    def fetch_bytes_max(self, asked):
        return min(asked, self.bytes_max)

    def consumed(self, nbytes):
        self.charged.append(("consume", nbytes))
        return 50


class Replica:
    """Has `available` bytes in batches of 100; always gives one batch if it is the first."""

    def __init__(self, available):
        self.available = available
        self.waiters = Waiters()
        self.end_held = None

    def may_take(self, leader_epoch):
        return leader_epoch == 0

    def refuse_to_store(self, group, refusal):
        group.fail(refusal)

    def append(self, group):
        group.complete([0] * len(group.batches))

    def fetch(self, asked, max_bytes, isolation_level, first, copied_bytes_max):
        assert copied_bytes_max == 0
        nbytes = min(self.available, max_bytes) // 100 * 100
        if not nbytes and first and self.available:
            nbytes = 100
        # The answer reaches the end of the log, so only its bytes decide if the fetch waits.
        records = SimpleNamespace(release=lambda: None)
        result = FetchedPartition(0, 7, 7, 0, records if nbytes else b"", nbytes)
        result.next_offset = 7
        return result


class World:
    def __init__(self, available=1000):
        self.meter = Meter()
        self.timers = []
        self.plane = DataPlane(self._call_later, lambda *_: None, {LIMITED: self.meter})
        self.replica = Replica(available)
        self.plane.replicas[TOPIC, 0] = self.replica
        self.answered = []

    def _call_later(self, seconds, callback):
        self.timers.append(callback)
        return type("Timer", (), {"cancel": lambda self: None})()

    def fetch(self, instance=LIMITED, *, min_bytes=1, max_bytes=10_000, max_wait_ms=500):
        work = FetchWork(
            instance=instance,
            partitions=[FetchPartition(TOPIC, 0, -1, 0, -1, 1 << 20)],
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            done=self.answered.append,
        )
        self.plane.fetch(work)
        return work


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(("instance", "throttle_ms"), [(LIMITED, 40), (FREE, 0)])
def test_append_is_charged(world, instance, throttle_ms):
    group = AppendGroup(TOPIC, 0, 0, 1, instance, Owner())
    group.batches.append(b"123")
    group.nbytes = 3
    world.plane.append([group])
    assert group.completed
    assert group.throttle_ms == throttle_ms
    assert world.meter.charged == ([("produce", 3)] if throttle_ms else [])


def test_an_append_over_the_limit_waits_until_there_is_a_share(world):
    group = AppendGroup(TOPIC, 0, 0, 1, LIMITED, Owner())
    group.batches.append(b"123")
    group.nbytes = 3
    world.meter.produce_ms = 100
    world.plane.append([group])
    assert not group.completed
    assert (world.meter.charged, world.meter.held_bytes) == ([], 3)
    world.meter.produce_ms = 0
    world.meter.on_share()
    assert group.completed
    assert (world.meter.charged, world.meter.held_bytes) == ([("produce", 3)], 0)


def test_append_at_the_storage_limit_is_refused_and_fetches_go_on(world):
    world.meter.why = "it is full"
    heard = []
    group = AppendGroup(TOPIC, 0, 0, 1, LIMITED, Owner(lambda _, failures: heard.append(failures)))
    group.batches.append(b"123")
    group.nbytes = 3
    world.plane.append([group])
    (failures,) = heard
    assert {key: (one.error_code, one.message) for key, one in failures.items()} == {
        0: (ErrorCode.POLICY_VIOLATION, "it is full")
    }
    assert group.throttle_ms == 0
    assert world.meter.charged == []
    assert world.fetch().results[0].nbytes == 1000


def test_fetch_is_charged_and_answered_with_a_throttle_time(world):
    work = world.fetch()
    assert world.answered == [work]
    assert work.results[0].nbytes == 1000
    assert work.throttle_ms == 50
    assert world.meter.charged == [("consume", 1000)]
    assert world.plane.fetched_bytes == 1000


def test_fetch_of_an_instance_without_limits(world):
    work = world.fetch(FREE)
    assert (work.results[0].nbytes, work.throttle_ms, world.meter.charged) == (1000, 0, [])


def test_fetch_is_limited_to_the_bytes_left_of_the_quota(world):
    world.meter.bytes_max = 450
    assert world.fetch().results[0].nbytes == 400
    world.meter.bytes_max = 1
    assert world.fetch().results[0].nbytes == 100  # One batch always passes.


def test_fetch_over_quota_is_answered_at_once_without_bytes(world):
    world.meter.hold_ms = 300
    work = world.fetch(min_bytes=1000)
    assert world.answered == [work]
    assert work.throttle_ms == 300
    (result,) = work.results
    assert (result.error_code, result.high_watermark, result.nbytes) == (0, 7, 0)
    assert world.meter.charged == []


def test_fetch_does_not_wait_for_more_than_it_may_get(world):
    world.meter.bytes_max = 300
    work = world.fetch(min_bytes=200)
    assert world.answered == [work]
    assert work.results[0].nbytes == 300


def test_waiting_fetch_is_charged_when_it_is_answered(world):
    work = world.fetch(min_bytes=2000)
    assert world.answered == []
    assert world.meter.charged == []
    world.replica.available = 2500
    world.replica.waiters.bytes_committed(1500)
    assert world.answered == [work]
    assert world.meter.charged == [("consume", 2500)]
    assert work.throttle_ms == 50
    assert world.plane.fetched_bytes == 2500


def test_waiting_fetch_that_is_over_quota_when_answered_gets_no_bytes(world):
    work = world.fetch(min_bytes=2000)
    world.meter.hold_ms = 120
    world.timers[0]()
    assert world.answered == [work]
    assert (work.results[0].nbytes, work.throttle_ms) == (0, 120)
