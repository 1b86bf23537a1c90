"""Partitions whose preferred replicas could lead and do not (auto.leader.rebalance.enable)."""

from collections.abc import Iterable, Mapping

from highwater.controller.core.change_leader import elect_preferred
from highwater.controller.core.full_replicas import Avoided, nobody
from highwater.controller.core.membership import candidates_among
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import Changes, Decision, delta_of
from highwater.controller.core.partition_index import PartitionIndex, PartitionKey
from highwater.model.cluster import ClusterImage, PartitionState


def unbalanced(
    image: ClusterImage, index: PartitionIndex, offline: OfflineByNode, avoided: Avoided = nobody
) -> dict[PartitionKey, PartitionState]:
    """Partitions whose preferred replica could lead and does not, with their state once it does.

    It has to be in the ISR, on a live node that is not draining, with a working log and space.
    """
    return _led_by_preferred(image, sorted(index.led_by_others), offline, avoided)


def steady(
    before: Mapping[PartitionKey, PartitionState], now: Mapping[PartitionKey, PartitionState]
) -> list[PartitionKey]:
    """Partitions that both looks found, and that did not change in between.

    The partition epoch grows if a preferred replica leaves the ISR and comes back, or if its node
    is fenced meanwhile.
    """
    return [
        key
        for key, after in now.items()
        if key in before and before[key].partition_epoch == after.partition_epoch
    ]


def balance(
    image: ClusterImage,
    chosen: Iterable[PartitionKey],
    offline: OfflineByNode,
    avoided: Avoided = nobody,
) -> Decision[int]:
    """The chosen partitions, led by their preferred leaders if still possible; their number."""
    moved = _led_by_preferred(image, chosen, offline, avoided)
    changed: Changes = {}
    for (topic_id, number), after in moved.items():
        changed.setdefault(topic_id, {})[number] = after
    return Decision(delta=delta_of(changed), result=len(moved))


def _led_by_preferred(
    image: ClusterImage, keys: Iterable[PartitionKey], offline: OfflineByNode, avoided: Avoided
) -> dict[PartitionKey, PartitionState]:
    candidates = candidates_among(image.nodes.values())
    failed = nodes_without(offline)
    found: dict[PartitionKey, PartitionState] = {}
    for topic_id, number in keys:
        topic = image.topics.get(topic_id)
        if topic is None or number >= len(topic.partitions):
            continue  # The topic was deleted meanwhile.
        here = failed.get(topic_id, {}).get(number, frozenset())
        able = candidates.of_partition(failed=here, full=avoided(topic_id, number))
        after = elect_preferred(topic.partitions[number], able)
        if after is not None:
            found[topic_id, number] = after
    return found
