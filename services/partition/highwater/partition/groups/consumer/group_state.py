"""The states of a consumer group, which follow from its members and epochs."""

import enum


class ConsumerGroupState(enum.Enum):
    """The value is the name that Kafka's tools show (Kafka: `ConsumerGroup.maybeUpdateGroupState`).

    EMPTY: it has no members.
    ASSIGNING: its epoch is newer than its target assignment.
    RECONCILING: a member does not yet hold its target assignment.
    STABLE: all members hold theirs.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
