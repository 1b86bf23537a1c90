"""ListOffsets 0: several offsets before a time."""

from dataclasses import replace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import UnsupportedVersionError
from highwater.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
)
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import image_of, topic

START, END = 5, 40
OFFSETS = {-1: END, -2: START, 99: 17}


def answer(request):
    """A log with the offsets 5 to 39; no record is as late as other timestamps."""
    return pb.ListOffsetsResponse(
        results=[
            pb.ListOffsetsResult(
                timestamp=-1, offset=OFFSETS.get(one.timestamp, -1), leader_epoch=3
            )
            for one in request.partitions
        ]
    )


def backend_of(*leaders, old=True):
    backend = FakeBackend(image_of(topic("orders", leaders)))
    backend.settings = replace(backend.settings, old_message_formats=old)
    for link in backend.links.values():
        link.answer_offsets = answer
    return backend


def ask(*partitions):
    """`partitions` are (partition, timestamp, greatest number of offsets)."""
    asked = [
        ListOffsetsRequestListOffsetsPartition(n, timestamp=time, max_num_offsets=most)
        for n, time, most in partitions
    ]
    return ListOffsetsRequest(topics=[ListOffsetsRequestListOffsetsTopic("orders", asked)])


async def told(backend, *partitions):
    response = await Client(backend).call(ask(*partitions), 0)
    return [
        (p.partition_index, p.error_code, list(p.old_style_offsets))
        for t in response.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize(
    ("timestamp", "one", "several"),
    [
        (-1, [END], [END, START]),
        (-2, [START], [START]),
        (99, [17], [17, START]),
        (10_000, [END], [END, START]),
    ],
)
async def test_offsets_from_the_largest_on(timestamp, one, several):
    backend = backend_of(1)
    assert await told(backend, (0, timestamp, 1)) == [(0, 0, one)]
    assert await told(backend, (0, timestamp, 2)) == [(0, 0, several)]
    assert await told(backend, (0, timestamp, 100)) == [(0, 0, several)]
    assert await told(backend, (0, timestamp, 0)) == [(0, 0, [])]
    assert await told(backend, (0, timestamp, -1)) == [(0, 0, [])]


async def test_partitions_keep_their_places():
    assert await told(backend_of(1, 2, 3), (2, -2, 1), (0, 10_000, 9), (1, 99, 1)) == [
        (2, 0, [START]),
        (0, 0, [END, START]),
        (1, 0, [17]),
    ]


async def test_errors_have_no_offsets():
    assert await told(backend_of(1, -1), (1, -1, 9), (9, 5, 9), (0, -3, 9), (0, -1, 9)) == [
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER, []),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        (0, ErrorCode.INVALID_REQUEST, []),
        (0, ErrorCode.INVALID_REQUEST, []),
    ]
    assert await told(backend_of(1), (0, -3, 9)) == [(0, ErrorCode.UNSUPPORTED_VERSION, [])]


async def test_without_the_setting_the_version_is_not_served():
    with pytest.raises(UnsupportedVersionError):
        await Client(backend_of(1, old=False)).call(ask((0, -1, 1)), 0)
