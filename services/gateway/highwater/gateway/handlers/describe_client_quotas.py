"""DescribeClientQuotas v0-1: the quotas of users, client ids and addresses (KIP-546).

Behaviour
- Answered from the newest image, for the instance of the client's port.
- Each component of the filter names a type: one name, its default, or any. A strict filter leaves
  out entities with further types; a filter without components matches all, a strict one nothing.
- A filter that cannot be used: INVALID_REQUEST; one with an unknown type: UNSUPPORTED_VERSION.
- Without DESCRIBE_CONFIGS on the cluster: CLUSTER_AUTHORIZATION_FAILED.

Version notes
- v1: flexible.

Deviations
- They are not the limits of instances that the quota service shares out.
"""

from collections.abc import Mapping

from highwater.gateway.handling.client_quota_filter import RefusedFilter, quota_filter
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    DescribeClientQuotasResponseValueData,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.client_quotas import QuotaEntity


async def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Filters the image's quotas."""
    if not context.allows(AclOperation.DESCRIBE_CONFIGS, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = quota_filter(request.components, strict=request.strict)
    if isinstance(wanted, RefusedFilter):
        return _refused(*wanted)
    instance = context.peer.instance
    return DescribeClientQuotasResponse(
        entries=[
            _entry(key.entity, values)
            for key, values in context.backend.image.client_quotas.items()
            if key.instance == instance and wanted.matches(key.entity)
        ],
    )


def failure(
    _request: DescribeClientQuotasRequest, _version: int, code: int
) -> DescribeClientQuotasResponse:
    """The code and its message, and no entries."""
    return _refused(code, ErrorCode(code).message)


def _refused(code: int, message: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


def _entry(
    entity: QuotaEntity, values: Mapping[str, float]
) -> DescribeClientQuotasResponseEntryData:
    return DescribeClientQuotasResponseEntryData(
        entity=[DescribeClientQuotasResponseEntityData(kind, name) for kind, name in entity],
        values=[
            DescribeClientQuotasResponseValueData(key, value)
            for key, value in sorted(values.items())
        ],
    )
