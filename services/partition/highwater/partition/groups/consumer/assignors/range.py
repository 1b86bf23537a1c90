"""The assignor "range": of each topic, members get ranges of partitions in their order.

Kafka: `RangeAssignor`. If all members read the same topics, and these have as many partitions, each
member gets the same numbers of all topics, so that it can join them. Static members come first, by
their instance ids, so that a restart moves nothing. Neither the previous assignment nor racks matter.
"""

from collections.abc import Mapping, Sequence

from highwater.model.ids import TopicId
from highwater.model.steps import Steps, finish
from highwater.partition.groups.consumer.assignors.pace import UNIT_MEMBERS, Pace
from highwater.partition.groups.consumer.assignors.readers import (
    comparing_subscriptions,
    finding_readers,
)
from highwater.partition.groups.consumer.assignors.types import (
    MemberAssignment,
    MemberSubscription,
    SubscribedTopic,
)


class RangeAssignor:
    """Has no state."""

    @property
    def name(self) -> str:
        """As in `Assignor`."""
        return "range"

    def assigning(
        self,
        members: Sequence[MemberSubscription],
        topics: Mapping[TopicId, SubscribedTopic],
        previous: Mapping[str, MemberAssignment],  # noqa: ARG002 (the port's)
        pace: Pace,
    ) -> Steps[dict[str, MemberAssignment]]:
        """As in `Assignor`."""
        if not members:
            return {}
        ordered = sorted(members, key=_order)
        if pace.is_full(1 + len(ordered) // UNIT_MEMBERS):
            yield
        alike = yield from comparing_subscriptions(ordered, pace)
        readers = yield from finding_readers(ordered, topics, alike=alike, pace=pace)
        found: list[dict[TopicId, tuple[int, ...]]] = [{} for _ in ordered]
        for topic_id, places in readers.items():
            base, extra = divmod(topics[topic_id].partitions, len(places))
            start = 0
            # Without a base only those that get one of the rest get something.
            for turn, place in enumerate(places if base else places[:extra]):
                end = start + base + (turn < extra)
                found[place][topic_id] = tuple(range(start, end))
                start = end
                if pace.is_full():
                    yield
        return {one.member_id: own for one, own in zip(ordered, found, strict=True)}

    def assign(
        self,
        members: Sequence[MemberSubscription],
        topics: Mapping[TopicId, SubscribedTopic],
        previous: Mapping[str, MemberAssignment],
    ) -> dict[str, MemberAssignment]:
        """As in `Assignor`."""
        return finish(self.assigning(members, topics, previous, Pace()))


def _order(member: MemberSubscription) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id
