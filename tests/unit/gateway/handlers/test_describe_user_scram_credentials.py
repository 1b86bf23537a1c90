from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from highwater.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequestUserName as Name,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER


def outcomes(response):
    return [
        (one.user, one.error_code, [(c.mechanism, c.iterations) for c in one.credential_infos])
        for one in response.results
    ]


async def test_the_controller_tells():
    backend = FakeBackend()
    backend.controller.scram_users = [
        pb.ScramUser(user="a", credentials=[pb.ScramInfo(mechanism=2, iterations=5_000)]),
        pb.ScramUser(user="b", error=pb.ApiError(error_code=91, message="because")),
    ]
    request = DescribeUserScramCredentialsRequest([Name("a"), Name("b")])
    response = await Client(backend, instance=OTHER).call(request, 0)
    assert (response.error_code, response.error_message) == (0, "")
    assert outcomes(response) == [("a", 0, [(2, 5_000)]), ("b", ErrorCode.RESOURCE_NOT_FOUND, [])]
    assert [one.error_message for one in response.results] == ["", "because"]
    (asked,) = backend.controller.requests
    assert (asked.instance, list(asked.users)) == (OTHER, ["a", "b"])


async def test_no_names_are_all_users():
    backend = FakeBackend()
    for users in (None, []):
        await Client(backend).call(DescribeUserScramCredentialsRequest(users), 0)
    assert [list(asked.users) for asked in backend.controller.requests] == [[], []]


async def test_no_controller():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    for users, expected in ((None, []), ([Name("a")], [("a", ErrorCode.NOT_CONTROLLER, [])])):
        response = await Client(backend).call(DescribeUserScramCredentialsRequest(users), 0)
        assert response.error_code == ErrorCode.NOT_CONTROLLER
        assert outcomes(response) == expected


async def test_denied():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.DESCRIBE, THE_CLUSTER))
    response = await Client(backend).call(DescribeUserScramCredentialsRequest([]), 0)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert backend.controller.requests == []
