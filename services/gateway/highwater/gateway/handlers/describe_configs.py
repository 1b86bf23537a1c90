"""DescribeConfigs v1-4: configs of topics, brokers, groups and others, with their sources.

Behaviour
- All configs are listed, defaults too, unless the request has a list of names that is not empty.
- Broker "" has the configs that are set for all brokers.
- A value's synonyms, if asked for, are its sources, the strongest first: topic, this broker, all
  brokers, the settings that services were started with, Kafka's default. A setting with its default
  value counts as default.
- Configs of listeners (`listener.name.internal.max.connections`) are there if they are set.
- To clients of an instance a broker's max.connections.per.ip.overrides is not there: it names others' addresses.
- A broker's advertised.listeners has all of its listeners: PLAINTEXT is the default one, others have
  their names in upper case.
- A client metrics subscription that does not exist has the defaults; its name is not empty
  (INVALID_REQUEST).
- Broker loggers are those of the process that the node runs in: its services, which are the
  `service` of each event in the log, and root for all others. Values are Kafka's levels. If the node
  cannot be asked: BROKER_NOT_AVAILABLE.
- A group that does not exist has the configs that were set for it, and the defaults; its id is not
  empty (INVALID_REQUEST).
- Without DESCRIBE_CONFIGS on a topic: TOPIC_AUTHORIZATION_FAILED; on a group:
  GROUP_AUTHORIZATION_FAILED; on the cluster, for all others: CLUSTER_AUTHORIZATION_FAILED.
- Documentation is sent only if asked for. Sensitive values are null.

Version notes
- v1: synonyms (KIP-226). v3: types and documentation (KIP-569). v4: flexible.

Deviations
- Any broker describes any other; in Kafka only itself.
- A topic's defaults come from the node of its first replica; in Kafka, from the broker that answers.
- The loggers of processes without a node (gateways, controllers) cannot be described or altered.
- Groups have only the two configs of the consumer protocol that coordinators here go by. Their
  defaults come from the group's coordinator; in Kafka, from the broker that answers.
"""

from collections.abc import Mapping, Sequence

from highwater.gateway.handling.authorization import config_denial
from highwater.gateway.handling.broker_loggers import (
    LoggersError,
    logger_levels,
    node_of_loggers,
)
from highwater.gateway.handling.config_view import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    logger_entries,
    topic_entries,
)
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.routing.brokers import advertised_listeners
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseDescribeConfigsResourceResult,
    DescribeConfigsResponseDescribeConfigsResult,
    DescribeConfigsResponseDescribeConfigsSynonym,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.config_type import ConfigResourceType
from highwater.model.connection_configs import PER_ADDRESS_OVERRIDES
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    INTERNAL_REPLICAS_MAX,
    NO_NODE,
    TRANSACTION_STATE_TOPIC,
    NodeId,
)
from highwater.model.topic_names import invalid_topic_name

_Asked = DescribeConfigsRequestDescribeConfigsResource
_Result = DescribeConfigsResponseDescribeConfigsResult


async def handle(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Answers from the newest image and the gateway's own settings."""
    results: list[_Result] = []
    for asked in request.resources:
        denial = config_denial(
            context, AclOperation.DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name
        )
        if denial:
            results.append(_refused(asked, denial, denial.message))
            continue
        if asked.resource_type == ConfigResourceType.BROKER_LOGGER:
            entries = await _loggers(context, asked)
        else:
            entries = _entries(context, asked)
        if isinstance(entries, _Result):
            results.append(entries)
            continue
        names = frozenset(asked.configuration_keys or ())
        configs = [_config(entry, request) for entry in entries if not names or entry.name in names]
        results.append(_Result(0, None, asked.resource_type, asked.resource_name, configs))
    return DescribeConfigsResponse(results=results)


def failure(request: DescribeConfigsRequest, _version: int, code: int) -> DescribeConfigsResponse:
    """The code for every resource."""
    message = ErrorCode(code).message
    return DescribeConfigsResponse(
        results=[_refused(asked, code, message) for asked in request.resources]
    )


async def _loggers(context: RequestContext, asked: _Asked) -> Sequence[ConfigEntry] | _Result:
    node = node_of_loggers(context, asked.resource_name)
    levels = node if isinstance(node, LoggersError) else await logger_levels(context, node)
    if isinstance(levels, LoggersError):
        return _refused(asked, levels.error_code, levels.message)
    return logger_entries(levels)


def _entries(context: RequestContext, asked: _Asked) -> Sequence[ConfigEntry] | _Result:
    image = context.backend.image
    name = asked.resource_name
    if asked.resource_type == ConfigResourceType.TOPIC:
        topic = image.topic(name, context.peer.instance)
        if topic is not None:
            return topic_entries(image, topic)
        why = invalid_topic_name(name)
        if why is not None:
            return _refused(asked, ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(asked, unknown, unknown.message)
    if asked.resource_type == ConfigResourceType.BROKER:
        if not name:
            return _told(context, default_broker_entries(image))
        node = image.nodes.get(NodeId(int(name))) if name.isdecimal() else None
        if node is not None:
            entries = broker_entries(image, node.node_id, _static(context, node))
            return _told(context, entries)
        return _refused(asked, ErrorCode.INVALID_REQUEST, f"there is no broker '{name}'")
    if asked.resource_type == ConfigResourceType.CLIENT_METRICS:
        if name:
            return client_metrics_entries(image, ClientMetricsKey(context.peer.instance, name))
        why = "Client metrics subscription name must not be empty"
        return _refused(asked, ErrorCode.INVALID_REQUEST, why)
    if asked.resource_type == ConfigResourceType.GROUP:
        if name:
            key = GroupConfigKey(context.peer.instance, name)
            return group_entries(image, key, *_coordinator(image, key))
        why = "Group name must not be empty"
        return _refused(asked, ErrorCode.INVALID_REQUEST, why)
    why = f"resource type {asked.resource_type} has no configs here"
    return _refused(asked, ErrorCode.INVALID_REQUEST, why)


def _told(context: RequestContext, entries: Sequence[ConfigEntry]) -> Sequence[ConfigEntry]:
    """A broker's configs as an instance may see them."""
    if context.peer.instance == DEFAULT_INSTANCE:
        return entries
    return [entry for entry in entries if entry.name != PER_ADDRESS_OVERRIDES]


def _coordinator(image: ClusterImage, key: GroupConfigKey) -> tuple[NodeId, Mapping[str, str]]:
    """The node that coordinates the group, and its settings; none if there is none."""
    topic = image.coordinator_topic(GROUP_METADATA_TOPIC, key.instance)
    if topic is None:
        return NO_NODE, {}
    partition = coordinator_place(key.instance, key.group_id, len(topic.partitions))
    leader = topic.partitions[partition].leader
    node = image.nodes.get(leader)
    return leader, {} if node is None else node.static_configs


def _static(context: RequestContext, node: NodeState) -> dict[str, str]:
    """The settings of the node and the gateway that are not Kafka's default, by Kafka's names."""
    settings = context.backend.settings
    given = {
        "auto.create.topics.enable": "true" if settings.auto_create_topics else "false",
        "broker.id": str(node.node_id),
        "broker.rack": node.rack,
        "connections.max.idle.ms": str(settings.idle_ms_max),
        "default.replication.factor": str(settings.replication_factor_default),
        "log.dirs": ",".join(node.log_dirs),
        "node.id": str(node.node_id),
        "num.partitions": str(settings.partitions_default),
        "offsets.topic.num.partitions": str(settings.group_metadata_partitions),
        "offsets.topic.replication.factor": str(
            _replicas(context, GROUP_METADATA_TOPIC, settings.group_metadata_replication_factor)
        ),
        "socket.request.max.bytes": str(settings.request_bytes_max),
        "transaction.state.log.min.isr": str(settings.transaction_state_min_isr),
        "transaction.state.log.num.partitions": str(settings.transaction_state_partitions),
        "transaction.state.log.replication.factor": str(
            _replicas(
                context, TRANSACTION_STATE_TOPIC, settings.transaction_state_replication_factor
            )
        ),
        "transaction.state.log.segment.bytes": str(settings.transaction_state_segment_bytes),
    }
    advertised = advertised_listeners(context.backend.image, node.node_id, context.peer.instance)
    if advertised:
        given["advertised.listeners"] = advertised
    own = {name: value for name, value in given.items() if value != BROKER_CONFIGS[name].default}
    return {**node.static_configs, **own}


def _replicas(context: RequestContext, name: str, wanted: int) -> int:
    """The replication factor of an internal topic: that it has, or would be created with."""
    image = context.backend.image
    topic = image.coordinator_topic(name, context.peer.instance)
    if topic is not None:
        return len(topic.partitions[0].replicas)
    return wanted if wanted > 0 else max(1, min(INTERNAL_REPLICAS_MAX, len(image.nodes)))


def _config(
    entry: ConfigEntry, request: DescribeConfigsRequest
) -> DescribeConfigsResponseDescribeConfigsResourceResult:
    hidden = entry.sensitive
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResponseDescribeConfigsResourceResult(
        name=entry.name,
        value=None if hidden else entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=hidden,
        synonyms=[
            DescribeConfigsResponseDescribeConfigsSynonym(
                synonym.name, None if hidden else synonym.value, synonym.source
            )
            for synonym in synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _refused(asked: _Asked, code: int, message: str) -> _Result:
    return _Result(code, message, asked.resource_type, asked.resource_name)
