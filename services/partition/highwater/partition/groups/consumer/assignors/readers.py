"""Which members read which topics."""

from collections.abc import Mapping, Sequence
from typing import Final

from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.assignors.types import MemberSubscription, SubscribedTopic

_UNIT_TOPICS: Final = 5
"""Topics of a member that are looked at in the time of one unit."""


def comparing_subscriptions(members: Sequence[MemberSubscription], pace: Pace) -> Steps[bool]:
    """True if all members read the same topics (Kafka: SubscriptionType.HOMOGENEOUS)."""
    first = members[0].topic_ids
    for member in members:
        if member.topic_ids is first:
            continue
        if member.topic_ids != first:
            return False
        if pace.is_full(1 + len(first) // _UNIT_TOPICS):
            yield
    return True


def finding_readers(
    members: Sequence[MemberSubscription],
    topics: Mapping[TopicId, SubscribedTopic],
    *,
    alike: bool,
    pace: Pace,
) -> Steps[dict[TopicId, Sequence[int]]]:
    """{topic: the places of its readers among the members}; topics that nobody reads are not in it.

    `alike`: all members read the same topics. They are not asked one by one: there may be thousands,
    with as many topics.
    """
    if alike:
        everybody = range(len(members))
        return {one: everybody for one in members[0].topic_ids if one in topics}
    readers: dict[TopicId, list[int]] = {}
    for place, member in enumerate(members):
        for topic_id in member.topic_ids:
            if topic_id in topics:
                readers.setdefault(topic_id, []).append(place)
        if pace.is_full(1 + len(member.topic_ids) // _UNIT_TOPICS):
            yield
    return dict(readers)
