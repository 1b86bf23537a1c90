import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
)
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    echo,
    group_topic,
    image_of,
    refuse,
    request_of,
)

VERSIONS = range(2, 9)

COMMIT = OffsetCommitRequest(
    "readers",
    4,
    "m-1",
    topics=[
        OffsetCommitRequestOffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestOffsetCommitRequestPartition(n, 42, committed_metadata="note")
                for n in partitions
            ],
        )
        for name, partitions in (("access_log", [0, 1]), ("orders", [7]))
    ],
)


def response_with(code):
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseOffsetCommitResponseTopic(
                name,
                partitions=[
                    OffsetCommitResponseOffsetCommitResponsePartition(n, code) for n in partitions
                ],
            )
            for name, partitions in (("access_log", [0, 1]), ("orders", [7]))
        ]
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(response_with(0)))
    assert await Client(backend).call(COMMIT, version) == response_with(0)
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, request_of(call)) == (2, COMMIT)


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_of_the_call_are_told_for_every_partition(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    response = await Client(backend).call(COMMIT, version)
    assert response == response_with(ErrorCode.NOT_COORDINATOR)
