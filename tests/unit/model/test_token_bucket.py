import pytest

from highwater.model.token_bucket import HOLD_MS_MAX, TokenBucket


def test_unlimited_holds_nothing():
    bucket = TokenBucket()
    assert bucket.unlimited
    assert bucket.charge(0, 1 << 40) == 0
    assert bucket.available_bytes(0) is None
    assert bucket.rate(0) is None


def test_burst_passes_and_the_rest_waits_for_the_rate():
    bucket = TokenBucket(rate=1000)
    assert bucket.available_bytes(0) == 100
    assert bucket.charge(0, 100) == 0
    assert bucket.charge(0, 50) == 50
    assert bucket.charge(0, 50) == 100
    assert bucket.available_bytes(150) == 50


def test_a_request_above_the_burst_passes_and_is_owed():
    bucket = TokenBucket(rate=1000)
    assert bucket.charge(0, 2000) == 0
    assert bucket.hold_ms(0, 1) == 1901
    assert bucket.hold_ms(1000, 2000) == 1000
    assert bucket.hold_ms(2000, 2000) == 0


def test_asking_charges_nothing():
    bucket = TokenBucket(rate=1000)
    assert bucket.hold_ms(0, 500) == 0
    assert bucket.available_bytes(0) == 100


def test_a_pause_saves_no_more_than_the_burst():
    bucket = TokenBucket(rate=1000)
    assert bucket.charge(3_600_000, 100) == 0
    assert bucket.charge(3_600_000, 100) == 100


def test_debt_outlives_a_change_of_rate():
    bucket = TokenBucket(rate=1000)
    bucket.charge(0, 1100)
    assert bucket.hold_ms(0, 100) == 1100
    bucket.set_rate(100, 2000)
    assert bucket.hold_ms(100, 100) == 500
    bucket.set_rate(100, 500)
    assert bucket.hold_ms(100, 50) == 1900
    bucket.set_rate(100, None)
    assert bucket.hold_ms(100, 1 << 30) == 0


def test_a_zero_share_is_the_longest_hold():
    bucket = TokenBucket(rate=0)
    assert bucket.hold_ms(0, 1) == HOLD_MS_MAX
    assert bucket.charge(0, 10) == HOLD_MS_MAX
    bucket.set_rate(1000, 100)
    assert bucket.hold_ms(1000, 10) == 200


def test_a_larger_rate_brings_no_burst_at_once():
    bucket = TokenBucket(rate=100)
    bucket.set_rate(0, 1000)
    assert bucket.available_bytes(0) == 10
    assert bucket.available_bytes(90) == 100
    bucket.set_rate(90, 500)
    assert bucket.available_bytes(90) == 50


def test_bytes_that_wait_before_count():
    bucket = TokenBucket(rate=1000)
    assert bucket.hold_ms(0, 100, behind=0) == 0
    assert bucket.hold_ms(0, 100, behind=500) == 500
    assert bucket.hold_ms(0, 0, behind=500) == 400


def test_long_holds_are_split():
    bucket = TokenBucket(rate=100)
    bucket.charge(0, 1000)
    assert [bucket.hold_ms(at, 10) for at in (0, 5000, 9999)] == [HOLD_MS_MAX, 5000, 1]


def test_lease_decays_to_its_floor():
    bucket = TokenBucket()
    bucket.set_lease(0, rate=1000, floor=200, expires_in_ms=3000, decay_ms=4000)
    assert [bucket.rate(at) for at in (0, 3000, 5000, 7000)] == pytest.approx(
        [1000, 1000, 600, 200]
    )
    bucket.set_lease(7000, rate=1000, floor=200, expires_in_ms=3000)
    assert bucket.rate(7000) == 1000


def test_a_rate_below_its_floor_grows_only_when_all_others_must_have_come_down():
    bucket = TokenBucket()
    bucket.set_lease(0, rate=100, floor=1000, expires_in_ms=3000)
    assert [bucket.rate(at) for at in (3000, 12_000, 13_500, 15_000)] == [100, 100, 550, 1000]
    # Its burst grows at the end of that, so that a large request does not wait for a growing bucket.
    assert bucket.hold_ms(14_000, 500) == 0
    assert bucket.hold_ms(16_000, 500) == 0
    bucket.set_lease(16_000, rate=100, floor=1000, expires_in_ms=30, decay_ms=3000)
    assert [bucket.rate(at) for at in (16_030, 19_060, 22_060)] == [100, 100, 1000]


def test_time_that_goes_backwards_is_ignored():
    bucket = TokenBucket(rate=1000, now_ms=1000)
    bucket.charge(1000, 100)
    assert bucket.hold_ms(500, 100) == bucket.hold_ms(1000, 100)


def test_excess_is_what_passed_ahead_of_the_rate_and_its_burst():
    bucket = TokenBucket(rate=1000)
    bucket.charge(0, 600)
    assert bucket.excess_bytes(0) == 500
    assert bucket.excess_bytes(300) == 200
    assert bucket.excess_bytes(700) == 0
    assert TokenBucket().excess_bytes(0) == 0
