import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.log_dirs import alter_log_dirs, ask_log_dirs
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import LimitExceededError, UnreachableError
from highwater.model.ids import NodeId
from tests.unit.gateway.handlers.fakes import Client, FakeBackend

QUESTION = pb.DescribeLogDirsRequest(all_topics=True)


@pytest.fixture
def backend():
    return FakeBackend()


async def ask(backend, node):
    return await ask_log_dirs(
        Client(backend).context(ApiKey.DESCRIBE_LOG_DIRS, 4), NodeId(node), QUESTION
    )


async def test_a_node_is_asked_within_the_request_timeout(backend):
    answer = pb.DescribeLogDirsResponse(dirs=[pb.LogDirDescription(path="/data")])
    backend.links[2].answer_log_dirs = lambda _asked: answer
    assert await ask(backend, 2) == answer
    assert backend.links[2].asked == [(QUESTION, 2.0)]


async def test_a_node_is_told_within_the_request_timeout(backend):
    wishes = pb.AlterLogDirsRequest(changes=[pb.LogDirChange()], paths=["/data"])
    answer = pb.AlterLogDirsResponse(error_codes=[57])
    backend.links[2].answer_log_dirs = lambda _asked: answer
    context = Client(backend).context(ApiKey.ALTER_REPLICA_LOG_DIRS, 2)
    assert await alter_log_dirs(context, NodeId(2), wishes) == answer
    assert backend.links[2].asked == [(wishes, 2.0)]


async def test_a_node_without_a_link_is_not_available(backend):
    assert await ask(backend, 9) == ErrorCode.BROKER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnreachableError("gone"), ErrorCode.BROKER_NOT_AVAILABLE),
        (LimitExceededError("too many calls"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_an_error_becomes_its_code(backend, error, code):
    def fail(_asked):
        raise error

    backend.links[1].answer_log_dirs = fail
    assert await ask(backend, 1) == code
