"""Produce replies packed in one call have the same bytes as those of the generated codec."""

from types import SimpleNamespace

import pytest

from highwater.gateway.core.produce_reply import (
    FLEXIBLE_FROM,
    name_part,
    pack_replies,
    pack_reply,
    reply_struct,
)
from highwater.gateway.data_plane.produce_encoding import PartitionResult, encode_reply
from tests.unit.gateway.core.shape_frames import produce_reply_by_codec, topic_id_of


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("length", [1, 125, 126, 127, 128, 129, 248, 249])
@pytest.mark.parametrize(
    "result",
    [
        SimpleNamespace(
            partition=0,
            error_code=0,
            base_offset=0,
            log_append_time_ms=-1,
            log_start_offset=0,
            throttle_ms=0,
        ),
        SimpleNamespace(
            partition=2**31 - 1,
            error_code=-1,
            base_offset=2**63 - 1,
            log_append_time_ms=1_700_000_000_000,
            log_start_offset=12,
            throttle_ms=2**31 - 1,
        ),
    ],
)
def test_the_reply_has_the_codecs_bytes(version, length, result):
    topic = "n" * length
    frame = pack_reply(
        reply_struct(version, length),
        version,
        2**31 - 1,
        name_part(version, topic.encode(), topic_id_of(topic)),
        result.partition,
        result.error_code,
        result.base_offset,
        result.log_append_time_ms,
        result.log_start_offset,
        result.throttle_ms,
    )
    if version < 5:
        result = SimpleNamespace(**{**vars(result), "log_start_offset": -1})
    assert frame == produce_reply_by_codec(version, 2**31 - 1, topic, result)


@pytest.mark.parametrize("version", range(FLEXIBLE_FROM, 14))
@pytest.mark.parametrize("topics", [0, 1, 2, 200])
def test_the_reply_of_several_partitions_has_the_codecs_bytes(version, topics):
    names = ["n" * (number + 1) for number in range(topics)]
    stored = [(7, 2**63 - 1, 1_700_000_000_000, 12), (2**31 - 1, 0, -1, 0)]
    frame = pack_replies(
        9, [(name_part(version, name.encode(), topic_id_of(name)), stored) for name in names], 5
    )
    results = [
        PartitionResult(
            index=number, base_offset=offset, log_append_time_ms=time, log_start_offset=start
        )
        for number, offset, time, start in stored
    ]
    by_codec = encode_reply(version, 9, [((n, topic_id_of(n)), results) for n in names], 5, [])
    assert frame == by_codec
