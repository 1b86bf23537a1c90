"""Requests for client quotas, from messages to what decisions take."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.change_client_quotas import QuotaAlteration
from highwater.metadata.convert import entity_from_pb


def quota_alteration(message: pb.ClientQuotaAlteration) -> QuotaAlteration:
    """One entity's change."""
    return QuotaAlteration(
        entity=entity_from_pb(message.entity),
        operations=[
            (operation.key, operation.value if operation.HasField("value") else None)
            for operation in message.operations
        ],
    )
