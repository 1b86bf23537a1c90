"""The limits of a Fetch, within those of the gateway."""

from types import SimpleNamespace

from highwater.gateway.core.fetch_limits import RESPONSE_BYTES_MAX, limits_of
from highwater.kafka.messages import fetch


def test_limits_are_those_of_the_request_within_the_gateways():
    request = fetch.FetchRequest(
        max_wait_ms=-5, min_bytes=9000, max_bytes=4000, isolation_level=1, rack_id="a", topics=()
    )
    assert limits_of(request, None) == (0, 4000, 4000, 1, "a")
    request = fetch.FetchRequest(
        max_wait_ms=5, min_bytes=-1, max_bytes=2**31 - 1, isolation_level=7, topics=()
    )
    assert limits_of(request, None) == (5, 0, RESPONSE_BYTES_MAX, 0, "")


def test_a_quota_limits_what_one_fetch_returns():
    quota = SimpleNamespace(fetch_bytes_max=1000)
    request = fetch.FetchRequest(max_wait_ms=5, min_bytes=2000, max_bytes=4000, topics=())
    assert limits_of(request, quota)[1:3] == (1000, 1000)
    request.max_bytes = 700
    assert limits_of(request, quota)[1:3] == (700, 700)
