"""Which topics need a check of the records, not only of the header."""

import pytest

from highwater.partition.data_plane.policy import AppendPolicy


@pytest.mark.parametrize(
    ("configs", "deep", "plain"),
    [
        ({}, False, True),
        ({"log_append_time": True}, False, False),
        ({"timestamp_before_ms_max": 5}, False, False),
        ({"compacted": True}, True, False),
        ({"validate_records": True}, True, False),
        ({"timestamp_after_ms_max": 5, "message_bytes_max": 5}, False, True),
    ],
)
def test_plain_and_deep(configs, deep, plain):
    policy = AppendPolicy(**configs)
    assert (policy.deep, policy.plain) == (deep, plain)
