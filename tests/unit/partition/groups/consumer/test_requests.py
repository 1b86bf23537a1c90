from dataclasses import replace

from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.requests import HeartbeatRequest
from tests.unit.partition.groups.dialogue import key


def test_a_full_request_has_all_that_may_be_left_out() -> None:
    request = HeartbeatRequest(
        key=key("g"), member_id="m", epoch=1, client_id="c", client_host="/h"
    )
    assert not request.is_full
    full = replace(request, rebalance_timeout_ms=1, topic_regex="", owned=NOTHING)
    assert full.is_full
    assert not replace(full, owned=None).is_full
    assert not replace(full, topic_regex=None).is_full
    assert replace(full, topic_regex=None, topic_names=frozenset()).is_full
