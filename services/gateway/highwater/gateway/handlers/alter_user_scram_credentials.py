"""AlterUserScramCredentials v0: sets and removes SCRAM credentials of users (KIP-554).

Behaviour
- Clients send passwords salted. StoredKey and ServerKey are made of them here, so that the salted
  password, with which anybody could log in, goes no further; the controller keeps the two keys, the
  salt and the iterations, as Kafka's does, for the instance of the client's port.
- 4 096 to 16 384 iterations, and a user name: else UNACCEPTABLE_CREDENTIAL. An unknown mechanism:
  UNSUPPORTED_SASL_MECHANISM. A credential to remove that is not there: RESOURCE_NOT_FOUND. A user
  who is named twice, also for different mechanisms: DUPLICATE_RESOURCE, and nothing is changed.
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every user.

Deviations
- At most 10 000 credentials in an instance (POLICY_VIOLATION); user names have at most 1 024
  characters and salts 1 024 bytes (UNACCEPTABLE_CREDENTIAL).
"""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseAlterUserScramCredentialsResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.scram import ScramMechanism, scram_credential

_Result = AlterUserScramCredentialsResponseAlterUserScramCredentialsResult


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Asks the controller."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    removed = [
        pb.ScramChange(user=deletion.name, mechanism=deletion.mechanism)
        for deletion in request.deletions
    ]
    response = await context.backend.controller.alter_scram_users(
        pb.AlterScramUsersRequest(
            instance=context.peer.instance,
            changes=[*removed, *(_change(upsertion) for upsertion in request.upsertions)],
        ),
        timeout_s=call_timeout_s(context),
    )
    await await_visible(context, response.revision)  # So that the user can log in here.
    return AlterUserScramCredentialsResponse(
        results=[
            _Result(user.user, user.error.error_code, user.error.message or None)
            for user in response.users
        ]
    )


def failure(
    request: AlterUserScramCredentialsRequest, _version: int, code: int
) -> AlterUserScramCredentialsResponse:
    """The code for every user, each once and in order, as in Kafka."""
    message = ErrorCode(code).message
    users = {one.name for one in request.deletions} | {one.name for one in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[_Result(user, code, message) for user in sorted(users)]
    )


def _change(
    upsertion: AlterUserScramCredentialsRequestScramCredentialUpsertion,
) -> pb.ScramChange:
    """The change without the salted password; without keys if the mechanism is not known."""
    change = pb.ScramChange(user=upsertion.name, mechanism=upsertion.mechanism)
    change.credential.iterations = upsertion.iterations
    change.credential.salt = bytes(upsertion.salt)
    if upsertion.mechanism in frozenset(ScramMechanism):
        made = scram_credential(
            ScramMechanism(upsertion.mechanism),
            iterations=upsertion.iterations,
            salt=bytes(upsertion.salt),
            salted_password=bytes(upsertion.salted_password),
        )
        change.credential.stored_key = made.stored_key
        change.credential.server_key = made.server_key
    return change
