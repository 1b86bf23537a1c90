"""Requests for client quotas, SCRAM users and ACLs, from messages to what decisions take and back."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.change_acls import Removal
from highwater.controller.core.change_client_quotas import QuotaAlteration
from highwater.controller.core.change_scram_users import ScramChange, ScramUser
from highwater.metadata.convert_access import acl_to_pb, entity_from_pb, scram_credential_from_pb
from highwater.model.acls import AclFilter
from highwater.model.ids import InstanceId


def quota_alteration(message: pb.ClientQuotaAlteration) -> QuotaAlteration:
    """One entity's change."""
    return QuotaAlteration(
        entity=entity_from_pb(message.entity),
        operations=[
            (operation.key, operation.value if operation.HasField("value") else None)
            for operation in message.operations
        ],
    )


def scram_change(message: pb.ScramChange) -> ScramChange:
    """One credential's change."""
    return ScramChange(
        user=message.user,
        mechanism=message.mechanism,
        credential=scram_credential_from_pb(message.credential)
        if message.HasField("credential")
        else None,
    )


def scram_user_to_pb(user: ScramUser, error: pb.ApiError) -> pb.ScramUser:
    """One user as told, with the error that `user.refusal` is."""
    return pb.ScramUser(
        user=user.user,
        error=error,
        credentials=[
            pb.ScramInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in user.iterations
        ],
    )


def acl_filter(message: pb.AclFilter) -> AclFilter:
    """One filter."""
    return AclFilter(
        instance=InstanceId(message.instance),
        resource_type=message.resource_type,
        pattern_type=message.pattern_type,
        name=message.name if message.HasField("name") else None,
        principal=message.principal if message.HasField("principal") else None,
        host=message.host if message.HasField("host") else None,
        operation=message.operation,
        permission=message.permission,
    )


def removal_to_pb(removal: Removal, error: pb.ApiError) -> pb.AclRemoval:
    """One filter's outcome, with the error that `removal.refusal` is."""
    return pb.AclRemoval(error=error, acls=map(acl_to_pb, removal.acls))
