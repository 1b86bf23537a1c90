"""Creates topics that clients ask about: auto-creation, and the topics of coordinators."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import PROPAGATION_MS_MAX
from highwater.gateway.handling.context import HandlerSettings, RequestContext
from highwater.gateway.handling.errors import kafka_code
from highwater.gateway.handling.shared_state import CREATIONS_MAX
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import TopicState
from highwater.model.coordinator_topics import coordinator_home, coordinator_topic_name
from highwater.model.errors import HighwaterError
from highwater.model.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, InstanceId

CREATION_TIMEOUT_S: Final = 5.0
VISIBLE_TIMEOUT_S: Final = 2.0
"""How long the gateway waits for its own image after that."""

_GROUP_METADATA_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    # offsets.topic.segment.bytes: small, so that old commits can be compacted away soon.
    "segment.bytes": str(100 * 1024 * 1024),
}


def auto_topic(context: RequestContext, name: str) -> pb.NewTopic:
    """The topic that auto-creation makes for a name."""
    settings = context.backend.settings
    if name == GROUP_METADATA_TOPIC:
        return pb.NewTopic(
            name=name,
            partitions=settings.group_metadata_partitions,
            replication_factor=settings.group_metadata_replication_factor,
            configs=_GROUP_METADATA_CONFIGS,
            internal=True,
        )
    if name == TRANSACTION_STATE_TOPIC:
        return pb.NewTopic(
            name=name,
            partitions=settings.transaction_state_partitions,
            replication_factor=settings.transaction_state_replication_factor,
            configs=_transaction_state_configs(settings),
            internal=True,
        )
    return pb.NewTopic(
        name=name,
        partitions=settings.partitions_default,
        replication_factor=settings.replication_factor_default,
    )


def _transaction_state_configs(settings: HandlerSettings) -> dict[str, str]:
    """Kafka: `TransactionStateManager.transactionTopicConfigs`."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(settings.transaction_state_min_isr),
        "segment.bytes": str(settings.transaction_state_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


async def coordinator_topic(context: RequestContext, name: str) -> TopicState | None:
    """The topic of a kind of coordinators of the instance, created on first use; None while it cannot be.

    `name` is that of the default instance's. That of other instances has the same settings.
    Creation waits until there are as many nodes as replicas are wanted, which matters when a
    cluster starts: the number of replicas does not grow later.
    """
    instance = context.peer.instance
    topic = context.backend.image.coordinator_topic(name, instance)
    if topic is None:
        wish = auto_topic(context, name)
        wish.name = coordinator_topic_name(name, instance)
        await create_topics(context, [wish], instance=coordinator_home(instance))
        topic = context.backend.image.coordinator_topic(name, instance)
    return topic


async def create_topics(
    context: RequestContext, wishes: Sequence[pb.NewTopic], *, instance: InstanceId | None = None
) -> dict[str, int]:
    """Creates topics and waits until this gateway's image has them; returns error codes by name.

    In the client's instance, unless another is given.

    Code 0 means that the topic exists, though perhaps not yet in this gateway's image. If another
    request is already creating a topic, this one waits for it: a thousand clients that start
    together cause one request to the controller. Raises nothing.
    """
    instance = context.peer.instance if instance is None else instance
    creations = context.backend.shared.creations[instance]
    waited = {wish.name: creations[wish.name] for wish in wishes if wish.name in creations}
    own = [wish for wish in wishes if wish.name not in waited]
    codes: dict[str, int] = {}
    if own and not _has_room(context, len(creations) + len(own)):
        codes.update((wish.name, int(ErrorCode.LEADER_NOT_AVAILABLE)) for wish in own)
    elif own:
        codes.update(await _create(context, own, instance))
    for name, outcome in waited.items():
        codes[name] = await asyncio.shield(outcome)
    return codes


def _has_room(context: RequestContext, count: int) -> bool:
    """True if so many topics of one instance may be under creation."""
    others = sum(len(each) for each in context.backend.shared.creations.values())
    return count <= CREATIONS_MAX - others


async def _create(
    context: RequestContext, wishes: Sequence[pb.NewTopic], instance: InstanceId
) -> dict[str, int]:
    """Makes one call to the controller, and answers all requests that wait for its topics."""
    creations = context.backend.shared.creations[instance]
    for wish in wishes:
        if not wish.internal:
            context.quota.may_change(wish.partitions, strict=False)
    loop = asyncio.get_running_loop()
    outcomes = {wish.name: loop.create_future() for wish in wishes}
    creations.update(outcomes)
    codes = dict.fromkeys(outcomes, int(ErrorCode.LEADER_NOT_AVAILABLE))
    try:
        response = await context.backend.controller.create_topics(
            pb.CreateTopicsRequest(instance=instance, topics=wishes, timeout_ms=PROPAGATION_MS_MAX),
            timeout_s=CREATION_TIMEOUT_S,
        )
        codes.update(zip(outcomes, _codes_of(response.results), strict=True))
        for name, result in zip(outcomes, response.results, strict=True):
            if codes[name]:
                context.warn("topic_not_created", topic=name, why=result.error.message)
        await context.backend.wait_for_revision(response.revision, VISIBLE_TIMEOUT_S)
    except HighwaterError as error:
        # LEADER_NOT_AVAILABLE makes clients ask again.
        context.warn(
            "topic_creation_failed",
            topics=list(outcomes),
            error_code=int(kafka_code(error)),
            error=str(error),
        )
    finally:
        for name, outcome in outcomes.items():
            del creations[name]
            outcome.set_result(codes[name])
    return codes


def _codes_of(results: Iterable[pb.TopicResult]) -> list[int]:
    """Error codes of the results; TOPIC_ALREADY_EXISTS counts as success."""
    codes = (result.error.error_code for result in results)
    return [0 if code == ErrorCode.TOPIC_ALREADY_EXISTS else code for code in codes]
