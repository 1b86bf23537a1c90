"""Bounds of the token bucket under random traffic, rates and leases."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from highwater.model.rate_schedule import RateSchedule
from highwater.model.token_bucket import BURST_S, TokenBucket

rates = st.integers(min_value=2_000, max_value=10_000_000)
fast_rates = st.integers(min_value=2_000_000, max_value=50_000_000)
"""Fast enough that the longest hold is never cut off."""
pauses_ms = st.integers(min_value=0, max_value=2_000)
sizes = st.integers(min_value=0, max_value=300_000)
schedules = st.builds(
    RateSchedule,
    rate=rates,
    floor=rates,
    expires_ms=st.integers(0, 10_000),
    decay_ms=st.integers(0, 10_000),
)


traffic = st.lists(st.tuples(pauses_ms, sizes), min_size=1, max_size=20)


def asked_again(bucket, traffic):
    """(moment, bytes) of what passes a queue whose head asks until it need not wait."""
    now_ms, out = 0, []
    for pause_ms, size in traffic:
        now_ms += pause_ms
        while held_ms := bucket.hold_ms(now_ms, size):
            now_ms += held_ms
        bucket.charge(now_ms, size)
        out.append((now_ms, size))
    return out


def reserved(bucket, traffic):
    """(moment, bytes) of what passes if each request is charged at once and then held."""
    now_ms, out = 0, []
    for pause_ms, size in traffic:
        now_ms += pause_ms
        out.append((now_ms + bucket.charge(now_ms, size), size))
    return out


def assert_bounded(rate, moments, slack=1):
    for first, (start_ms, _) in enumerate(moments):
        total = largest = 0
        for at_ms, size in moments[first:]:
            total += size
            largest = max(largest, size)
            window_s = (at_ms - start_ms) / 1000
            assert total <= rate * window_s + max(rate * BURST_S, largest) + slack


@given(rate=rates, traffic=traffic)
def test_no_window_of_a_queue_lets_more_through_than_rate_and_burst(rate, traffic):
    assert_bounded(rate, asked_again(TokenBucket(rate=rate), traffic))


@example(rate=2_108_743, traffic=[(0, 1), (0, 210_876), (0, 2)])
@given(rate=fast_rates, traffic=traffic)
def test_no_window_of_reservations_lets_more_through_than_rate_and_burst(rate, traffic):
    moments = reserved(TokenBucket(rate=rate), traffic)
    # Holds are whole milliseconds: requests due within one leave together at its end.
    assert_bounded(rate, moments, slack=1 + rate / 1000)
    order = [at_ms for at_ms, _ in moments]
    assert order == sorted(order)


@example(
    schedule=RateSchedule(rate=10387, floor=2000, expires_ms=0, decay_ms=835),
    traffic=[(833, 10002), (0, 10002)],
)
@given(schedule=schedules, traffic=traffic)
def test_no_window_lets_more_through_than_a_decaying_lease(schedule, traffic):
    bucket = TokenBucket()
    bucket.set_lease(
        0,
        rate=schedule.rate,
        floor=schedule.floor,
        expires_in_ms=int(schedule.expires_ms),
        decay_ms=schedule.decay_ms,
    )
    moments = asked_again(bucket, traffic)
    burst = max(schedule.rate, schedule.floor) * BURST_S
    shrinks = max(0, schedule.rate - schedule.floor) * BURST_S
    for first, (start_ms, _) in enumerate(moments):
        total = largest = 0
        for at_ms, size in moments[first:]:
            total += size
            largest = max(largest, size)
            # A large request passes when the bucket is full, which takes less after the decay.
            most = max(burst, largest + shrinks)
            assert total <= schedule.bytes_between(start_ms, at_ms) + most + 1


@given(rate=rates, size=st.integers(min_value=1, max_value=300_000))
def test_a_saturating_client_gets_the_whole_rate(rate, size):
    bucket = TokenBucket(rate=rate)
    now_ms = asked_again(bucket, [(0, size)] * 50)[-1][0]
    total = 49 * size
    # Holds are whole milliseconds, so each request loses at most one.
    assert total >= rate * (now_ms - 50) / 1000 - 1


@given(schedule=schedules, from_ms=st.integers(0, 20_000), length_ms=st.integers(0, 20_000))
def test_bytes_agree_with_a_numeric_integral(schedule, from_ms, length_ms):
    steps = 2_000
    step_ms = length_ms / steps
    numeric = sum(
        schedule.rate_at(from_ms + (index + 0.5) * step_ms) * step_ms / 1000
        for index in range(steps)
    )
    exact = schedule.bytes_between(from_ms, from_ms + length_ms)
    jump = abs(schedule.rate - schedule.floor) * step_ms / 1000
    assert math.isclose(exact, numeric, rel_tol=1e-6, abs_tol=2 * jump + 1e-6)


@given(schedule=schedules, from_ms=st.integers(0, 20_000), wanted=st.integers(0, 10_000_000))
def test_time_is_the_inverse_of_bytes(schedule, from_ms, wanted):
    took_ms = schedule.ms_until(from_ms, wanted)
    assert math.isclose(
        schedule.bytes_between(from_ms, from_ms + took_ms), wanted, rel_tol=1e-6, abs_tol=1e-3
    )


parts_of_ticks = st.lists(
    st.lists(st.integers(0, 100), min_size=4, max_size=4).filter(any), min_size=1, max_size=12
)


@example(parts=[[int(node == tick % 4) for node in range(4)] for tick in range(12)])
@given(parts=parts_of_ticks)
def test_shares_that_move_bring_no_burst_of_their_own(parts):
    """Four nodes divide a limit anew each second, and use all that they may: together they let pass what
    one node would let pass with all of it.
    """
    limit = 1_000_000
    buckets = [TokenBucket(rate=limit / 4) for _ in range(4)]
    passed = 0
    for tick, weights in enumerate(parts):
        for bucket, weight in zip(buckets, weights, strict=True):
            bucket.set_rate(1000 * tick, limit * weight / sum(weights))
        for now_ms in range(1000 * tick, 1000 * (tick + 1), 50):
            for bucket in buckets:
                nbytes = bucket.available_bytes(now_ms)
                bucket.charge(now_ms, nbytes)
                passed += nbytes
    assert passed <= limit * (len(parts) + BURST_S) + 1
