"""DescribeUserScramCredentials v0: the SCRAM mechanisms and iterations of users (KIP-554).

Behaviour
- Answered by the controller, for the instance of the client's port.
  Salts and keys are not told to anybody.
- All users if none is named. Unknown users: RESOURCE_NOT_FOUND, named twice: DUPLICATE_RESOURCE.
- Without DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED.

Deviations
- If no controller answers, the request fails; a broker of Kafka answers from its image.
"""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import call_timeout_s
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredentialInfo,
    DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

_Result = DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult


async def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Asks the controller."""
    if not context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response = await context.backend.controller.describe_scram_users(
        pb.DescribeScramUsersRequest(
            instance=context.peer.instance, users=[user.name for user in request.users or ()]
        ),
        timeout_s=call_timeout_s(context),
    )
    return DescribeUserScramCredentialsResponse(results=[_result(user) for user in response.users])


def failure(
    request: DescribeUserScramCredentialsRequest, _version: int, code: int
) -> DescribeUserScramCredentialsResponse:
    """The code for the request and for every user, as in Kafka."""
    message = ErrorCode(code).message
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=message,
        results=[_Result(user.name, code, message) for user in request.users or ()],
    )


def _result(user: pb.ScramUser) -> _Result:
    return _Result(
        user=user.user,
        error_code=user.error.error_code,
        error_message=user.error.message,
        credential_infos=[
            DescribeUserScramCredentialsResponseCredentialInfo(one.mechanism, one.iterations)
            for one in user.credentials
        ],
    )
