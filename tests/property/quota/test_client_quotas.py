"""Clients that wait as they are told stay near their quota, whatever they send and however many share it."""

import heapq

from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater.gateway.quota.core.mutation_tokens import MutationTokens
from highwater.gateway.quota.core.windowed_rate import THROTTLE_MS_MAX, QuotaWindows, WindowedRate

LIMIT = 1000.0
WINDOWS = QuotaWindows()
SPAN_S = WINDOWS.span_ms / 1000
LARGEST = 3000
"""Three seconds' worth in one request."""

requests = st.lists(
    st.tuples(st.integers(1, LARGEST), st.integers(0, 3000)), min_size=20, max_size=60
)
"""(size, how long the client rests before it, in ms)"""


def obeyed(sizes: list[tuple[int, int]], clients: int) -> list[tuple[int, int]]:
    """(time in ms, size) of all requests of clients that take turns, and wait as they are told."""
    rate = WindowedRate(WINDOWS)
    free_at = [0] * clients
    sent = []
    now_ms = 0
    for size, rest_ms in sizes:
        next_one = min(range(clients), key=free_at.__getitem__)
        now_ms = max(now_ms, free_at[next_one]) + rest_ms
        rate.record(now_ms, size)
        sent.append((now_ms, size))
        free_at[next_one] = now_ms + rate.delay_ms(now_ms, LIMIT)
    return sent


@given(requests, st.integers(1, 4))
def test_no_span_has_more_than_twice_the_limit(sizes: list[tuple[int, int]], clients: int) -> None:
    """A client that has rested may send all windows but one at once, and then goes on at its rate."""
    sent = obeyed(sizes, clients)
    for end_ms, _ in sent:
        there = sum(size for at_ms, size in sent if end_ms - WINDOWS.span_ms < at_ms <= end_ms)
        assert there <= 2 * LIMIT * SPAN_S + clients * LARGEST


@given(st.lists(st.integers(1, LARGEST), min_size=30, max_size=80))
def test_a_busy_client_has_its_limit_in_the_long_run(sizes: list[int]) -> None:
    sent = obeyed([(size, 0) for size in sizes], 1)
    last_s = sent[-1][0] / 1000
    total = sum(size for _, size in sent)
    # Windows forget: what is sent in one instant counts for one window less than the span.
    most = LIMIT * WINDOWS.count / (WINDOWS.count - 1) * (last_s + SPAN_S) + LARGEST
    assert LIMIT * last_s - LARGEST <= total <= most


@given(requests)
def test_who_stays_well_below_the_limit_is_never_told_to_wait(sizes: list[tuple[int, int]]) -> None:
    rate = WindowedRate(WINDOWS)
    now_ms = 0
    for size, rest_ms in sizes:
        now_ms += max(size * 3 // 2 + 1, rest_ms)  # A byte a millisecond is the limit.
        rate.record(now_ms, size)
        assert rate.delay_ms(now_ms, LIMIT) == 0


@given(requests, st.integers(0, 100_000))
def test_a_delay_is_long_enough_but_for_what_windows_hide(
    sizes: list[tuple[int, int]], at_ms: int
) -> None:
    """After it, the rate is at the limit as it was measured then, in at least all windows but one."""
    rate = WindowedRate(WINDOWS)
    for size, rest_ms in sizes:
        at_ms += rest_ms
        rate.record(at_ms, size)
    delay_ms = rate.delay_ms(at_ms, LIMIT)
    assert 0 <= delay_ms <= THROTTLE_MS_MAX
    if delay_ms:
        assert rate.delay_ms(at_ms, LIMIT, more=-delay_ms * LIMIT / 1000) == 0
        assert rate.delay_ms(at_ms, LIMIT, more=-(delay_ms - 1.5) * LIMIT / 1000) > 0


@given(st.lists(st.integers(1, 50), min_size=20, max_size=60), st.floats(0.5, 10))
def test_partitions_are_bounded_by_the_bucket_and_its_rate(wishes: list[int], limit: float) -> None:
    tokens = MutationTokens(WINDOWS)
    now_ms, made = 0, []
    for partitions in wishes:
        assert tokens.may_take(now_ms, limit), "as soon as it was told"
        tokens.take(now_ms, limit, partitions)
        made.append((now_ms, partitions))
        now_ms += tokens.delay_ms(now_ms, limit)
    # The last wish is one that the bucket did not hold.
    total = sum(partitions for _, partitions in made[:-1])
    assert total <= limit * (SPAN_S + made[-1][0] / 1000) + 1e-3


@settings(max_examples=10)
@example(connections=500, size=1000)
@given(connections=st.sampled_from([1, 5, 60, 500, 2000]), size=st.sampled_from([100, 1000]))
def test_connections_that_share_a_quota_keep_to_it_together_however_many(
    connections: int, size: int
) -> None:
    """Each sends as soon as it may. A delay that ended before all of them have had their turn would let
    through what they send in that time, whatever the quota.
    """
    rate = WindowedRate(WINDOWS)
    due = [(0, number) for number in range(connections)]
    first_s = 2 * connections * size / LIMIT + SPAN_S
    last_s = first_s + 600
    total, now_ms = 0, 0
    while now_ms < last_s * 1000:
        now_ms, number = heapq.heappop(due)
        rate.record(now_ms, size)
        total += size * (now_ms >= first_s * 1000)
        heapq.heappush(due, (now_ms + max(1, rate.held_ms(now_ms, LIMIT)), number))
    assert 0.95 * LIMIT * 600 <= total <= 1.02 * LIMIT * 600
