"""Settings of group coordination, with Kafka's defaults where Kafka has the setting."""

import enum
from dataclasses import dataclass, field
from typing import Final

from highwater.model.group_config import GroupBounds, bounds_of

_STRINGS_BYTES_MAX: Final = 200 << 10


class MigrationPolicy(enum.Enum):
    """Whether groups change between the classic and the consumer protocol while members run.

    [group.consumer.migration.policy] The values are Kafka's.
    """

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a member of the consumer protocol may join a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """Whether a group becomes classic again when its last such member is gone."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Limits and delays of the groups of one node; brackets hold the name of Kafka's setting."""

    session_timeout_ms_min: int = 6_000
    """[group.min.session.timeout.ms]"""
    session_timeout_ms_max: int = 1_800_000
    """[group.max.session.timeout.ms]"""
    initial_rebalance_delay_ms: int = 3_000
    """[group.initial.rebalance.delay.ms] The embedded mode sets 0."""
    new_member_join_timeout_ms: int = 300_000
    """A new member that waits longer than this in JoinGroup is removed (Kafka: 5 min)."""
    group_size_max: int = 2**31 - 1
    """[group.max.size] No limit by default; `members_max` limits all groups together."""
    consumer_bounds: GroupBounds = field(default_factory=lambda: bounds_of({}))
    """[group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms,
    group.consumer.assignment.interval.ms, .min. and .max.] The embedded mode sets the last one to 0."""
    consumer_group_size_max: int = 2**31 - 1
    """[group.consumer.max.size]"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """[group.consumer.assignors] The first is the default."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    pending_members_max: int = 10_000
    """Member ids of one group that were handed out (KIP-394) and not used yet."""
    groups_max: int = 100_000
    """Groups per shard, so that made-up group ids cannot fill the memory. Of this and the limits below,
    instances that share a shard may each have as much as is left (`shares`)."""
    members_max: int = 200_000
    """Members and handed-out ids in one shard."""
    metadata_bytes_max: int = 256 * 1024 * 1024
    """What the members of one shard sent, together: protocol metadata, and topics that they read."""
    parked_max: int = 100_000
    """JoinGroup and SyncGroup calls waiting in one shard."""
    offset_metadata_bytes_max: int = 4_096
    """[offset.metadata.max.bytes]"""
    offsets_per_group_max: int = 200_000
    offsets_max: int = 2_000_000
    """Committed offsets in one shard."""
    operation_bytes_max: int = 1_000_000
    """The records of one request must fit into one batch of the topic [message.max.bytes]. Those of
    consumer groups may take several, but each of them must fit."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """[offsets.retention.minutes]"""
    offsets_retention_check_ms: int = 600_000
    """[offsets.retention.check.interval.ms]"""
    assignment_step_units: int = 1_000
    """What is done for a target assignment before the loop has its turn, some 2 ms (`assignors.pace`)."""
    expiry_groups_per_slice: int = 64
    """Groups that one slice of the retention check looks at, so that it never blocks the loop."""

    @property
    def list_bytes_max(self) -> int:
        """What the lists in a record may take: topics, partitions, metadata. The rest is for its
        key and its single strings, six at most, which Kafka's protocol limits to 32 KiB.
        """
        return self.operation_bytes_max - min(_STRINGS_BYTES_MAX, self.operation_bytes_max // 4)

    def allows_session(self, timeout_ms: int) -> bool:
        """Whether a member of the classic protocol may have this session timeout."""
        return self.session_timeout_ms_min <= timeout_ms <= self.session_timeout_ms_max
