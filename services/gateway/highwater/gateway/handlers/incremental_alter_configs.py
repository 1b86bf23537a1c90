"""IncrementalAlterConfigs v0-1: sets and deletes single configs (KIP-339).

Behaviour
- Resources are topics, brokers, client metrics subscriptions (KIP-714), broker loggers (KIP-412) and
  groups (KIP-848).
- Without ALTER_CONFIGS on a topic: TOPIC_AUTHORIZATION_FAILED; on a group: GROUP_AUTHORIZATION_FAILED;
  on the cluster, for all others: CLUSTER_AUTHORIZATION_FAILED.
- SET and DELETE take any config, APPEND and SUBTRACT only lists, and as in Kafka none of client
  metrics. The latter two change the value in
  effect for a topic, and a broker's own value or the default; appending a present item changes
  nothing. The controller computes the list, so that changes through two gateways add up.
- A duplicate resource, a duplicate config of a resource, and a SET without a value are
  INVALID_REQUEST. Broker "" means all brokers.
- A topic takes only the configs of Kafka's table, with valid values (INVALID_CONFIG); a broker only
  dynamic ones (INVALID_REQUEST, as in Kafka). DELETE of a config that is not set succeeds.
- A client metrics subscription is made by its first config, and gone without its last one. Unknown
  configs and an interval out of range are INVALID_REQUEST; a `match` with an unknown property or an
  invalid regular expression and lists with duplicates are INVALID_CONFIG.
- A group need not exist. Unknown configs, values that are no number or out of the bounds of a node
  (`group.consumer.min.session.timeout.ms` and the like), and a session timeout that is not longer
  than the heartbeat interval are INVALID_CONFIG; no group id is INVALID_REQUEST.
- Loggers get one of Kafka's levels until the node's process ends; DELETE lets root's level hold.
  Unknown loggers and levels are INVALID_CONFIG; to append or subtract, or to delete root's level, is
  INVALID_REQUEST. If the node cannot be asked: BROKER_NOT_AVAILABLE.
- Before the answer the change is in the metadata store, and in most cases in effect at the nodes.

Version notes
- v1: flexible.

Deviations
- Any broker can be altered through any other; in Kafka only through itself.
- Unknown broker configs are refused; Kafka keeps them for plugins.
- An instance has at most 1 000 client metrics subscriptions and 10 000 groups with configs
  (POLICY_VIOLATION).
- Groups have the configs of consumer groups only (`group_config_table`).
"""

from collections.abc import Sequence
from typing import Final

from highwater.gateway.handling.config_changes import (
    Assignments,
    Plan,
    Refused,
    ResourceKey,
    Target,
    alter_resources,
    check_names,
)
from highwater.gateway.handling.config_view import (
    broker_config_type,
    topic_config_type,
)
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from highwater.model.config_type import ConfigType

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

_Result = IncrementalAlterConfigsResponseAlterConfigsResourceResponse


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Resolves the operations and asks the controller."""
    keys = [ResourceKey(one.resource_type, one.resource_name) for one in request.resources]
    plans = [_plan(one.configs) for one in request.resources]
    outcomes = await alter_resources(
        context, list(zip(keys, plans, strict=True)), validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=[_result(key, outcome) for key, outcome in zip(keys, outcomes, strict=True)]
    )


def failure(
    request: IncrementalAlterConfigsRequest, _version: int, code: int
) -> IncrementalAlterConfigsResponse:
    """The code for every resource."""
    message = ErrorCode(code).message
    return IncrementalAlterConfigsResponse(
        responses=[
            _Result(code, message, one.resource_type, one.resource_name)
            for one in request.resources
        ]
    )


def _result(key: ResourceKey, refusal: Refused | None) -> _Result:
    if refusal is None:
        return _Result(ErrorCode.NONE, None, key.type, key.name)
    return _Result(refusal.error_code, refusal.message, key.type, key.name)


def _plan(configs: Sequence[IncrementalAlterConfigsRequestAlterableConfig]) -> Plan:
    def plan(target: Target) -> Assignments | Refused:
        refusal = check_names(
            (config.name, config.value is None and config.config_operation != DELETE)
            for config in configs
        )
        if refusal is not None:
            return refusal
        values: dict[int, dict[str, str]] = {SET: {}, APPEND: {}, SUBTRACT: {}}
        deleted: list[str] = []
        for config in configs:
            operation = config.config_operation
            if operation == DELETE:
                deleted.append(config.name)
                continue
            if operation not in values:
                why = f"unknown operation {operation} on config {config.name}"
                return Refused(ErrorCode.INVALID_REQUEST, why)
            if operation != SET and target.loggers_of is not None:
                name = "APPEND" if operation == APPEND else "SUBTRACT"
                why = f"{name} operation is not allowed for the BROKER_LOGGER resource"
                return Refused(ErrorCode.INVALID_REQUEST, why)
            if operation != SET and not _is_list(target, config.name):
                verb = "APPEND to" if operation == APPEND else "SUBTRACT from"
                why = f"Can't {verb} key {config.name} because its type is not LIST."
                return Refused(ErrorCode.INVALID_CONFIG, why)
            values[operation][config.name] = config.value or ""
        return Assignments(
            set=values[SET],
            deleted=deleted,
            appended=values[APPEND],
            subtracted=values[SUBTRACT],
        )

    return plan


def _is_list(target: Target, name: str) -> bool:
    if target.topic is not None:
        return topic_config_type(name) is ConfigType.LIST
    if target.client_metrics is not None:
        return False  # As in Kafka, whose controller does not know their types.
    if target.group is not None:
        return False
    return broker_config_type(name) is ConfigType.LIST
