"""ListConfigResources v0-1: the resources that can have configs (KIP-714, KIP-1142).

Behaviour
- v0 lists client metrics subscriptions. v1 lists the types that are asked for, all if none is: topics
  of the instance, brokers, their loggers, client metrics, and the groups that have configs.
- Clients of another instance than the default one see no loggers, which they may not describe.
- Another type is UNSUPPORTED_VERSION, and nothing is listed.
- Without DESCRIBE_CONFIGS on the cluster: CLUSTER_AUTHORIZATION_FAILED. As in Kafka, single topics
  are not asked about.

Version notes
- v0 was called ListClientMetricsResources. v1: types.
"""

from collections.abc import Iterable, Iterator

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.config_type import ConfigResourceType
from highwater.model.ids import DEFAULT_INSTANCE


async def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Answers from the newest image."""
    version = context.api_version
    if not context.allows(AclOperation.DESCRIBE_CONFIGS, THE_CLUSTER):
        return failure(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    supported = [ConfigResourceType.CLIENT_METRICS] if version == 0 else list(ConfigResourceType)
    wanted = request.resource_types or supported
    if not set(wanted) <= set(supported):
        return failure(request, version, ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponseConfigResource(name, kind)
            for kind in dict.fromkeys(wanted)
            for name in _names(context, kind)
        ]
    )


def failure(
    _request: ListConfigResourcesRequest, _version: int, code: int
) -> ListConfigResourcesResponse:
    """The code, and no resources."""
    return ListConfigResourcesResponse(error_code=code)


def _names(context: RequestContext, kind: int) -> Iterable[str]:
    image, instance = context.backend.image, context.peer.instance
    names: Iterator[str] = iter(())
    if kind == ConfigResourceType.TOPIC:
        names = (topic.name for topic in image.topics.values() if topic.instance == instance)
    elif kind == ConfigResourceType.BROKER or (
        kind == ConfigResourceType.BROKER_LOGGER and instance == DEFAULT_INSTANCE
    ):
        names = (str(node) for node in sorted(image.nodes))
    elif kind == ConfigResourceType.CLIENT_METRICS:
        names = (key.name for key in image.client_metrics if key.instance == instance)
    elif kind == ConfigResourceType.GROUP:
        names = (key.group_id for key in image.group_configs if key.instance == instance)
    return names
