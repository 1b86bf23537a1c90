import pytest

from highwater.model.ids import InstanceId
from highwater.partition.quota.meter import (
    NO_SHARE_MS_MAX,
    PRODUCE_LEAD_MS,
    NodeMeters,
    ShareOfNode,
    Usage,
)

ONE = InstanceId("one")
TWO = InstanceId("two")
RATE = 1_000_000.0
FOREVER = 3_600_000


class Time:
    now_ms = 1_000

    def __call__(self):
        return self.now_ms


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def meters(time):
    return NodeMeters(time)


def share(instance=ONE, produce=None, consume=None):
    return ShareOfNode(
        instance=instance,
        produce=produce,
        consume=consume,
        produce_floor=produce or 0,
        consume_floor=consume or 0,
    )


def test_table_has_limited_instances_only(meters):
    table = meters.by_instance
    meters.take([share(ONE, produce=RATE), share(TWO)], FOREVER)
    assert set(table) == {ONE}
    meters.take([share(TWO, consume=RATE)], FOREVER)
    assert set(table) == {TWO}
    assert meters.by_instance is table


@pytest.mark.parametrize("nbytes", [1_000, 64_000, 1_000_000])
def test_a_busy_producer_that_waits_as_told(meters, time, nbytes):
    """In ten seconds it sends at least the limit, and at most the limit and one burst."""
    meters.take([share(produce=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    end = time.now_ms + 10_000
    passed = 0
    while time.now_ms < end:
        time.now_ms += meter.produce_hold_ms(nbytes)
        passed += nbytes
        time.now_ms += meter.produced(nbytes)
    assert 10 * RATE <= passed <= 10 * RATE + 0.1 * RATE + nbytes


def test_many_producers_share_one_debt(meters, time):
    meters.take([share(produce=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    free_at = [time.now_ms] * 20
    start, passed = time.now_ms, 0
    while time.now_ms < start + 10_000:
        for number, at in enumerate(free_at):
            if at <= time.now_ms and not meter.produce_hold_ms(50_000):
                passed += 50_000
                free_at[number] = time.now_ms + meter.produced(50_000)
        time.now_ms = max(time.now_ms + 1, min(free_at))
    assert passed == pytest.approx(10 * RATE, rel=0.02)


def test_unlimited_direction_is_never_held(meters):
    meters.take([share(produce=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    assert meter.fetch_hold_ms() == 0
    assert meter.fetch_bytes_max(1 << 40) == 1 << 40
    assert meter.consumed(1 << 40) == 0


@pytest.mark.parametrize("asked", [1 << 16, 50 << 20])
def test_a_busy_consumer(meters, time, asked):
    """It fetches again as soon as it may; fetches are cut to the rest of the share."""
    meters.take([share(consume=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    end = time.now_ms + 10_000
    passed = answers = 0
    while time.now_ms < end:
        assert meter.fetch_hold_ms() == 0
        nbytes = meter.fetch_bytes_max(asked)
        passed += nbytes
        answers += 1
        time.now_ms += meter.consumed(nbytes)
    assert passed == pytest.approx(10 * RATE, rel=0.02)
    assert answers < 250  # Pieces do not become smaller and smaller.


def test_fetch_while_the_share_is_used_up(meters, time):
    meters.take([share(consume=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    assert meter.consumed(1_000_000) == pytest.approx(950, abs=1)
    assert meter.fetch_hold_ms() == pytest.approx(950, abs=1)
    time.now_ms += 949
    assert meter.fetch_hold_ms() > 0
    time.now_ms += 2
    assert meter.fetch_hold_ms() == 0
    assert meter.fetch_bytes_max(10**9) == pytest.approx(51_000, abs=2_000)


def test_an_instance_without_a_share_yet_is_held_briefly(meters):
    meters.take([share(produce=0.0, consume=0.0)], FOREVER)
    meter = meters.by_instance[ONE]
    assert meter.produce_hold_ms(10) == NO_SHARE_MS_MAX
    assert meter.produced(10) == NO_SHARE_MS_MAX - PRODUCE_LEAD_MS
    assert meter.fetch_hold_ms() == NO_SHARE_MS_MAX


def test_who_waits_without_a_share_is_reported_so_that_there_will_be_one(meters):
    meters.take([share(produce=0.0, consume=0.0)], FOREVER)
    meter = meters.by_instance[ONE]
    assert meters.take_usage()[ONE].held_consume == 0
    meter.fetch_hold_ms()
    assert meters.take_usage()[ONE].held_consume == 1


def test_debt_survives_a_new_share(meters):
    meters.take([share(produce=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    meter.produced(3_000_000)
    meters.take([share(produce=RATE)], FOREVER)
    assert meters.by_instance[ONE] is meter
    assert meter.produced(0) > 2_000


def test_share_decays_to_its_floor_without_news(meters, time):
    meters.take(
        [ShareOfNode(instance=ONE, produce=RATE, consume=None, produce_floor=RATE / 10)], 3_000
    )
    meter = meters.by_instance[ONE]
    time.now_ms += 60_000
    # 1 MB at a tenth of the rate, capped.
    assert meter.produced(1_000_000) == 5_000 - PRODUCE_LEAD_MS


def test_usage_is_reported_once(meters, time):
    meters.take([share(produce=RATE, consume=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    meter.produced(90_000)
    meter.produced(60_000)
    meter.consumed(10)
    assert meters.take_usage() == {
        ONE: Usage(
            produced=100_000,
            consumed=10,
            held_produce=60_000,
            held_consume=0,
            produce_rate=RATE,
            consume_rate=RATE,
        )
    }
    time.now_ms += 1_000
    assert meters.take_usage() == {
        ONE: Usage(produced=50_000, produce_rate=RATE, consume_rate=RATE)
    }
    assert meters.take_usage() == {ONE: Usage(produce_rate=RATE, consume_rate=RATE)}


def test_clients_wait_for_what_waits_before_them_and_refused_bytes_are_demand(meters):
    meters.take([share(produce=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    assert meter.produce_hold_ms(1_000_000) == 0
    meter.held_bytes = 500_000
    assert meter.produced(100_000) == 500 - PRODUCE_LEAD_MS
    assert meter.refused(70_000) == 500 - PRODUCE_LEAD_MS
    assert meter.produce_hold_ms(50_000) == 50
    assert meters.take_usage()[ONE].held_produce == 100_000 + 70_000 + 500_000


def test_a_share_is_told_and_the_last_one_is_unlimited(meters):
    meters.take([share(produce=RATE)], FOREVER)
    meter, told = meters.by_instance[ONE], []
    meter.produced(9_000_000)
    meter.on_share = lambda: told.append(meter.produce_hold_ms(1))
    meters.take([share(produce=2 * RATE)], FOREVER)
    meters.take([], FOREVER)
    assert told == [4_451, 0]


def test_a_storage_limit_alone_is_metered(meters):
    def news(left, *, exhausted=False):
        limits = ShareOfNode(
            instance=ONE,
            produce=None,
            consume=None,
            storage_limit=1_000,
            storage_left=left,
            storage_exhausted=exhausted,
        )
        meters.take([limits], FOREVER)

    news(100)
    meter = meters.by_instance[ONE]
    assert not meter.refuses_produce()
    assert meter.produced(100) == 0
    assert "1000 of 1000 bytes" in meter.refuses_produce()
    assert meters.take_usage()[ONE].storage_exhausted
    news(30)
    assert not meter.refuses_produce()
    news(10, exhausted=True)
    assert "990 of 1000 bytes" in meter.refuses_produce()


def test_bytes_that_wait_count_in_the_ticks_that_pay_for_them(meters, time):
    meters.take([share(produce=RATE)], FOREVER)
    meter = meters.by_instance[ONE]
    meter.produced(3_100_000)  # A tenth of a second passes as a burst.
    demands = []
    for _ in range(4):
        used = meters.take_usage()[ONE]
        demands.append((used.produced, used.held_produce))
        time.now_ms += 1_000
    assert demands == [
        (100_000, 3_100_000),
        (1_000_000, 2_000_000),
        (1_000_000, 1_000_000),
        (1_000_000, 0),
    ]
    assert meters.take_usage()[ONE].produced == 0
