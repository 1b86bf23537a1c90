"""AlterConfigs v0-2: replaces all configs of a resource; configs that are not named are reset.

Behaviour
- Resources are topics, brokers, client metrics subscriptions and groups. Those of another type, broker
  loggers too, are INVALID_REQUEST.
- Without ALTER_CONFIGS on a topic: TOPIC_AUTHORIZATION_FAILED; on a group: GROUP_AUTHORIZATION_FAILED;
  on the cluster, for all others: CLUSTER_AUTHORIZATION_FAILED.
- A duplicate resource, a duplicate config of a resource, and a config without a value are
  INVALID_REQUEST. Broker "" means all brokers.
- Names and values are checked as in IncrementalAlterConfigs, which lists the deviations.
- Newer clients use IncrementalAlterConfigs, which does not undo what others set meanwhile.

Version notes
- v1: throttle time. v2: flexible.
"""

from collections.abc import Sequence

from highwater.gateway.handling.config_changes import (
    Assignments,
    Plan,
    Refused,
    ResourceKey,
    Target,
    alter_resources,
    check_names,
)
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
)

_Result = AlterConfigsResponseAlterConfigsResourceResponse


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Asks the controller."""
    keys = [ResourceKey(one.resource_type, one.resource_name) for one in request.resources]
    plans = [_plan(one.configs) for one in request.resources]
    outcomes = await alter_resources(
        context, list(zip(keys, plans, strict=True)), validate_only=request.validate_only
    )
    return AlterConfigsResponse(
        responses=[_result(key, outcome) for key, outcome in zip(keys, outcomes, strict=True)]
    )


def failure(request: AlterConfigsRequest, _version: int, code: int) -> AlterConfigsResponse:
    """The code for every resource."""
    message = ErrorCode(code).message
    return AlterConfigsResponse(
        responses=[
            _Result(code, message, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def _result(key: ResourceKey, refusal: Refused | None) -> _Result:
    if refusal is None:
        return _Result(ErrorCode.NONE, None, key.type, key.name)
    return _Result(refusal.error_code, refusal.message, key.type, key.name)


def _plan(configs: Sequence[AlterConfigsRequestAlterableConfig]) -> Plan:
    def plan(target: Target) -> Assignments | Refused:
        if target.loggers_of is not None:  # As Kafka words it.
            return Refused(ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
        refusal = check_names((config.name, config.value is None) for config in configs)
        if refusal is not None:
            return refusal
        given = {config.name: config.value or "" for config in configs}
        return Assignments(set=given, replace_all=True)

    return plan
