"""Broker configs by Kafka's names, as DescribeConfigs shows them.

Dynamic configs may be changed while brokers run (IncrementalAlterConfigs on a broker, or on "" for
all) and take effect at once: defaults of topic configs (TOPIC_CONFIG_SYNONYMS), rates of the nodes
(RATES), limits of connections (`connection_configs`), settings of the log cleaner and of producer
state, and the assignment interval of consumer groups. The others are read-only.
`broker_config_table` has the configs themselves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from highwater.model.broker_config_table import DYNAMIC, READ_ONLY, BrokerConfig
from highwater.model.connection_configs import listener_config_of

TOPIC_CONFIG_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.type": ("compression.type",),
    "compression.zstd.level": ("compression.zstd.level",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}
"""The broker configs that give a topic config its default; the first that is set wins (Kafka:
ServerTopicConfigSynonyms)."""


RATES: Final = frozenset({
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
})  # fmt: skip
"""Dynamic configs of the nodes themselves, in bytes per second, at least 0 (Kafka: QuotaConfig)."""

CLUSTER_WIDE: Final = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
"""Dynamic configs that the controller uses: they cannot be set for a single node."""

BROKER_CONFIGS: Final[Mapping[str, BrokerConfig]] = {
    config.name: config for config in sorted(READ_ONLY + DYNAMIC, key=lambda config: config.name)
}
"""All configs by name, in the order of their names."""

BROKER_CONFIG_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    name: names[names.index(name) :] for names in TOPIC_CONFIG_SYNONYMS.values() for name in names
}
"""{broker config: itself and its fallbacks in order}, for the defaults of topic configs."""


def broker_config_of(name: str) -> BrokerConfig | None:
    """The config of that name, also one of a listener; None if there is none."""
    of_listener = listener_config_of(name)
    if of_listener is None:
        return BROKER_CONFIGS.get(name)
    return replace(BROKER_CONFIGS[of_listener[1]], name=name)


def broker_config_names(name: str) -> tuple[str, ...]:
    """The config and its fallbacks in order: of a listener's, the broker's."""
    of_listener = listener_config_of(name)
    if of_listener is not None:
        return name, of_listener[1]
    return BROKER_CONFIG_SYNONYMS.get(name, (name,))
