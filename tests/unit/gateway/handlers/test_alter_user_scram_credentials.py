from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from highwater.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequestScramCredentialDeletion as Deletion,
)
from highwater.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequestScramCredentialUpsertion as Upsertion,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from highwater.model.scram import ScramMechanism, scram_credential
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER

SALT, PASSWORD = b"the-salt", b"the-salted-password"
REQUEST = AlterUserScramCredentialsRequest(
    [Deletion("gone", 1)], [Upsertion("new", 2, 5_000, SALT, PASSWORD)]
)


def outcomes(response):
    return [(one.user, one.error_code, one.error_message) for one in response.results]


async def test_the_controller_gets_keys_and_never_the_salted_password():
    backend = FakeBackend()
    response = await Client(backend, instance=OTHER).call(REQUEST, 0)
    assert outcomes(response) == [("gone", 0, None), ("new", 0, None)]
    (asked,) = backend.controller.requests
    removed, added = asked.changes
    assert asked.instance == OTHER
    assert (removed.user, removed.mechanism, removed.HasField("credential")) == ("gone", 1, False)
    assert (added.user, added.mechanism) == ("new", 2)
    made = scram_credential(
        ScramMechanism.SCRAM_SHA_512, iterations=5_000, salt=SALT, salted_password=PASSWORD
    )
    sent = added.credential
    assert (sent.iterations, sent.salt) == (5_000, SALT)
    assert (sent.stored_key, sent.server_key) == (made.stored_key, made.server_key)
    assert PASSWORD not in asked.SerializeToString()


async def test_a_mechanism_that_is_not_known_is_left_to_the_controller():
    backend = FakeBackend()
    why = "Unknown SCRAM mechanism"
    backend.controller.errors["new"] = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, why)
    upsertion = Upsertion("new", 9, 5_000, SALT, PASSWORD)
    request = AlterUserScramCredentialsRequest([], [upsertion])
    response = await Client(backend).call(request, 0)
    assert outcomes(response) == [("new", ErrorCode.UNSUPPORTED_SASL_MECHANISM, why)]
    (asked,) = backend.controller.requests
    assert asked.changes[0].credential.stored_key == b""
    assert PASSWORD not in asked.SerializeToString()


async def test_no_controller():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    request = AlterUserScramCredentialsRequest(
        [Deletion("b", 1), Deletion("a", 1)], [Upsertion("b", 1)]
    )
    response = await Client(backend).call(request, 0)
    told = ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER.message
    assert outcomes(response) == [("a", *told), ("b", *told)], "each user once"


async def test_denied():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(REQUEST, 0)
    assert {one.error_code for one in response.results} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert backend.controller.requests == []
