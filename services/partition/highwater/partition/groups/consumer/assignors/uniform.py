"""The assignor "uniform", the default: equally many partitions for each, and few that move.

Kafka: `UniformAssignor`. See `uniform_alike` and `uniform_mixed` for what it does, and `hand_out` for
racks.
"""

from collections.abc import Mapping, Sequence

from highwater.model.ids import TopicId
from highwater.model.steps import Steps, finish
from highwater.partition.groups.consumer.assignors.owners import Owners
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
from highwater.partition.groups.consumer.assignors.uniform_alike import assign_alike
from highwater.partition.groups.consumer.assignors.uniform_mixed import assign_mixed


class UniformAssignor:
    """Has no state."""

    @property
    def name(self) -> str:
        """As in `Assignor`."""
        return "uniform"

    def assigning(
        self,
        members: Sequence[MemberSubscription],
        topics: Mapping[TopicId, SubscribedTopic],
        previous: Mapping[str, MemberAssignment],
        pace: Pace,
    ) -> Steps[dict[str, MemberAssignment]]:
        """As in `Assignor`."""
        if not members:
            return {}
        ordered = sorted(members, key=lambda member: member.member_id)
        if pace.is_full(1 + len(ordered) // UNIT_MEMBERS):
            yield
        alike = yield from comparing_subscriptions(ordered, pace)
        readers = yield from finding_readers(ordered, topics, alike=alike, pace=pace)
        owners = Owners(ordered, [topics[topic_id] for topic_id in readers], pace)
        yield from owners.keep(previous)
        if alike:
            yield from assign_alike(owners)
        else:
            yield from assign_mixed(owners, readers)
        return (yield from owners.result())

    def assign(
        self,
        members: Sequence[MemberSubscription],
        topics: Mapping[TopicId, SubscribedTopic],
        previous: Mapping[str, MemberAssignment],
    ) -> dict[str, MemberAssignment]:
        """As in `Assignor`."""
        return finish(self.assigning(members, topics, previous, Pace()))
