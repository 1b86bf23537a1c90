import pytest

from highwater.rpc.backoff import ConnectBackoff, RetryThrottle, retry_pause_s


def test_pauses_grow_to_half_a_second_and_begin_anew():
    backoff = ConnectBackoff(lambda: 0.5)
    pauses = [backoff.failed() for _ in range(8)]
    assert pauses[:3] == pytest.approx([0.05, 0.08, 0.128])
    assert pauses[-1] == pytest.approx(0.5)
    backoff.succeeded()
    assert backoff.failed() == pytest.approx(0.05)


@pytest.mark.parametrize(("drawn", "pause"), [(0.0, 0.04), (1.0, 0.06)])
def test_pauses_vary_by_a_fifth(drawn, pause):
    assert ConnectBackoff(lambda: drawn).failed() == pytest.approx(pause)


def test_a_peer_that_fails_half_of_its_calls_gets_no_retries():
    throttle = RetryThrottle()
    assert [throttle.failed() for _ in range(60)] == [True] * 49 + [False] * 11
    for _ in range(150):
        throttle.succeeded()
    assert throttle.failed()


def test_retries_wait_for_anything_up_to_their_backoff():
    assert retry_pause_s(1, lambda: 1.0) == 0.05
    assert retry_pause_s(2, lambda: 0.5) == 0.05
    assert retry_pause_s(9, lambda: 1.0) == 0.5
