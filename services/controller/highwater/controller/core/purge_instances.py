"""The purge of deleted instances whose time has come: slice by slice, the instance itself last.

Each decision is made from the image alone, so that whoever is the active controller goes on where the
last one stopped. Until the instance is gone nothing can be added to it (`closed_instance`), so that a
later instance of the same id finds nothing of this one.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from highwater.controller.core.change_topics import delete_topics
from highwater.controller.core.outcome import PENDING_REVISION, Decision, unchanged
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import InstanceId, TopicId

TOPICS_PER_SLICE: Final = 100
PARTITIONS_PER_SLICE: Final = 2_000
"""Of the topics of one slice together, unless one alone has more: other changes wait meanwhile, and
nodes remove their logs."""

ENTRIES_PER_SLICE: Final = 1_000
"""Credentials, ACLs, quotas and configs of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeStep:
    """What one slice removes."""

    instance: InstanceId
    topics: int = 0
    entries: int = 0
    ended: bool = False
    """True: the instance itself is gone with it."""


def due(image: ClusterImage, now_ms: int) -> InstanceId | None:
    """The deleted instance that is to be purged first, if the time of any has come."""
    deleted = [
        (each.purge_at_ms, each.instance)
        for each in image.instances.values()
        if each.purge_at_ms is not None and each.purge_at_ms <= now_ms
    ]
    return min(deleted)[1] if deleted else None


def purge_instances(image: ClusterImage, now_ms: int) -> Decision[PurgeStep | None]:
    """The next slice, None if no instance is due."""
    instance = due(image, now_ms)
    if instance is None:
        return unchanged(None)
    topics = _next_topics(image, instance)
    if topics:
        removal = delete_topics(image, instance, topics)
        return Decision(
            delta=removal.delta, result=PurgeStep(instance=instance, topics=len(topics))
        )
    delta = _entries(image, instance)
    kinds = (delta.acls, delta.client_quotas, delta.client_metrics, delta.group_configs)
    removed = len(delta.scram_credentials) + sum(len(kind) for kind in kinds)
    if removed:
        return Decision(delta=delta, result=PurgeStep(instance=instance, entries=removed))
    end = ClusterDelta(revision=PENDING_REVISION, removed_instances=frozenset({instance}))
    return Decision(delta=end, result=PurgeStep(instance=instance, ended=True))


def _next_topics(image: ClusterImage, instance: InstanceId) -> list[TopicId]:
    chosen: list[TopicId] = []
    partitions = 0
    for topic in image.topics.values():
        if topic.instance != instance:
            continue
        partitions += len(topic.partitions)
        if chosen and partitions > PARTITIONS_PER_SLICE:
            break
        chosen.append(topic.topic_id)
        if len(chosen) == TOPICS_PER_SLICE:
            break
    return chosen


def _entries(image: ClusterImage, instance: InstanceId) -> ClusterDelta:
    """Some of each kind of what belongs to the instance, beside its topics."""
    users = (key for key in image.scram_credentials if key.instance == instance)
    acls = (acl for acl in image.acls if acl.instance == instance)
    quotas = (key for key in image.client_quotas if key.instance == instance)
    metrics = (key for key in image.client_metrics if key.instance == instance)
    groups = (key for key in image.group_configs if key.instance == instance)
    return ClusterDelta(
        revision=PENDING_REVISION,
        scram_credentials=dict.fromkeys(islice(users, ENTRIES_PER_SLICE), None),
        acls=dict.fromkeys(islice(acls, ENTRIES_PER_SLICE), False),
        client_quotas={key: {} for key in islice(quotas, ENTRIES_PER_SLICE)},
        client_metrics={key: {} for key in islice(metrics, ENTRIES_PER_SLICE)},
        group_configs={key: {} for key in islice(groups, ENTRIES_PER_SLICE)},
    )
