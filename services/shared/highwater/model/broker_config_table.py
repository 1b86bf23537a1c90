"""The table of broker configs: names, types and defaults as Apache Kafka 4 has them.

Only configs that have a meaning here are listed. The dynamic ones are those of Kafka
(`DynamicBrokerConfig.AllDynamicConfigs`) except `log.cleaner.threads`: a node compacts one log at a
time. The texts say where a config does less here than in Kafka.
"""

from dataclasses import dataclass
from typing import Final

from highwater.model import connection_configs
from highwater.model.config_type import ConfigType
from highwater.model.group_broker_config_table import GROUP_COORDINATION

LONG_MAX: Final = 2**63 - 1
NO_LIMIT_LONG: Final = str(LONG_MAX)
_NO_LIMIT_INT: Final = str(2**31 - 1)

_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One config. `default` is None if it has no value unless set."""

    name: str
    type: ConfigType
    default: str | None
    dynamic: bool
    """Whether it may be changed while brokers run."""
    documentation: str
    low: float | None = None
    """The smallest number allowed; defaults of topic configs have the topic config's limits."""


def _static(name: str, kind: ConfigType, default: str | None, documentation: str) -> BrokerConfig:
    return BrokerConfig(
        name=name, type=kind, default=default, dynamic=False, documentation=documentation
    )


def _dynamic(
    name: str,
    kind: ConfigType,
    default: str | None,
    documentation: str,
    *,
    low: float | None = None,
) -> BrokerConfig:
    return BrokerConfig(
        name=name, type=kind, default=default, dynamic=True, documentation=documentation, low=low
    )


READ_ONLY: Final = (
    _static(
        "advertised.listeners",
        ConfigType.STRING,
        None,
        "The addresses that clients use for this broker.",
    ),
    _static(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        "true",
        "Create topics that clients ask for and that do not exist.",
    ),
    _static("broker.id", ConfigType.INT, "-1", "The broker's id; the same as node.id."),
    _static(
        "broker.rack", ConfigType.STRING, None, "The broker's rack; replicas spread over racks."
    ),
    _static(
        "connections.max.idle.ms",
        ConfigType.LONG,
        "600000",
        "Connections without traffic for this long are closed.",
    ),
    _static(
        "default.replication.factor",
        ConfigType.INT,
        "1",
        "The replication factor of topics that are created without one.",
    ),
    _static("delete.topic.enable", ConfigType.BOOLEAN, "true", "Whether topics can be deleted."),
    *(_static(*row) for row in GROUP_COORDINATION),
    _static(
        "inter.broker.protocol.version",
        ConfigType.STRING,
        "4.0-IV3",
        "For tools that read it; nodes here do not use Kafka's protocol with one another.",
    ),
    _static(
        "log.flush.scheduler.interval.ms",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "The value of log.flush.interval.ms if that is not set.",
    ),
    _static("log.dirs", ConfigType.LIST, None, "The directories that hold the logs."),
    _static(
        "node.id",
        ConfigType.INT,
        "-1",
        "The partition node's id, which is its broker id to clients.",
    ),
    _static(
        "num.partitions",
        ConfigType.INT,
        "1",
        "Partitions of topics that are created without a number.",
    ),
    _static(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        "4096",
        "The longest metadata string that a client may commit with an offset.",
    ),
    _static(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        "600000",
        "How often offsets are checked for expiry.",
    ),
    _static(
        "offsets.retention.minutes",
        ConfigType.INT,
        "10080",
        "How long offsets of a group without members are kept.",
    ),
    _static(
        "offsets.topic.num.partitions",
        ConfigType.INT,
        "50",
        "Partitions of the group metadata topic; fixed once it exists.",
    ),
    _static(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        "3",
        "Replicas of the group metadata topic; fixed once it exists.",
    ),
    _static(
        "offsets.topic.segment.bytes",
        ConfigType.INT,
        "104857600",
        "Segment size of the group metadata topic.",
    ),
    _static(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        "10000",
        "How often open transactions are looked at for their timeouts.",
    ),
    _static(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        "900000",
        "The longest transaction.timeout.ms that a producer may ask for.",
    ),
    _static(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        "3600000",
        "How often transactional ids are looked at for their expiration.",
    ),
    _static(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        "604800000",
        "How long a transactional id that nobody uses is remembered.",
    ),
    _static("process.roles", ConfigType.LIST, "broker", "The node's roles in Kafka's terms."),
    _static(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        "10000",
        "A follower that has not caught up for this long leaves the in-sync replicas.",
    ),
    _static(
        "replica.selector.class",
        ConfigType.STRING,
        None,
        "Where consumers that name a rack read (KIP-392): with Kafka's RackAwareReplicaSelector from "
        "followers in their rack; the only selector.",
    ),
    _static(
        "socket.request.max.bytes",
        ConfigType.INT,
        "104857600",
        "The largest request that is accepted.",
    ),
    _static(
        "transaction.state.log.min.isr",
        ConfigType.INT,
        "2",
        "min.insync.replicas of the topic of transaction states when it is created.",
    ),
    _static(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        "50",
        "Partitions of the topic of transaction states; fixed once it exists.",
    ),
    _static(
        "transaction.state.log.replication.factor",
        ConfigType.SHORT,
        "3",
        "Replicas of the topic of transaction states; fixed once it exists.",
    ),
    _static(
        "transaction.state.log.segment.bytes",
        ConfigType.INT,
        "104857600",
        "Segment size of the topic of transaction states when it is created.",
    ),
    _static("log.cleaner.enable", ConfigType.BOOLEAN, "true", "Compact topics by their policies."),
    _static(
        "log.cleaner.threads", ConfigType.INT, "1", "Logs that a node compacts at the same time."
    ),
    _static(
        "log.flush.offset.checkpoint.interval.ms",
        ConfigType.INT,
        "60000",
        "How often recovery points are written; a restart checks the logs from there on.",
    ),
    _static(
        "replica.high.watermark.checkpoint.interval.ms",
        ConfigType.LONG,
        "5000",
        "How often high watermarks are written to disk for the next start.",
    ),
    _static(
        "log.retention.check.interval.ms",
        ConfigType.LONG,
        "300000",
        "How often logs are checked for segments to delete.",
    ),
    _static(
        "log.retention.hours", ConfigType.INT, "168", "As log.retention.ms, which wins; in hours."
    ),
    _static(
        "log.retention.minutes",
        ConfigType.INT,
        None,
        "As log.retention.ms, which wins; in minutes.",
    ),
    _static("log.roll.hours", ConfigType.INT, "168", "As log.roll.ms, which wins; in hours."),
    _static(
        "log.roll.jitter.hours",
        ConfigType.INT,
        "0",
        "As log.roll.jitter.ms, which wins; in hours.",
    ),
)
"""Read-only configs: settings of the services, and fixed values."""

DYNAMIC: Final = (
    _dynamic(
        "group.consumer.assignment.interval.ms",
        ConfigType.INT,
        "1000",
        "How long the next target assignment of a consumer group waits after the last one.",
        low=0,
    ),
    _dynamic(
        "log.cleaner.delete.retention.ms",
        ConfigType.LONG,
        str(_DAY_MS),
        "How long compaction keeps tombstones, counted from its first pass over them.",
    ),
    _dynamic(
        "log.cleaner.max.compaction.lag.ms",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "The longest that a record stays uncompacted, whatever the log's dirty ratio.",
    ),
    _dynamic(
        "log.cleaner.min.cleanable.ratio",
        ConfigType.DOUBLE,
        "0.5",
        "A log is compacted when a larger share of its bytes is dirty.",
    ),
    _dynamic(
        "log.cleaner.min.compaction.lag.ms",
        ConfigType.LONG,
        "0",
        "The shortest that a record stays uncompacted.",
    ),
    _dynamic(
        "follower.replication.throttled.rate",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "Bytes per second that a broker fetches for its throttled replicas that are not in sync.",
        low=0,
    ),
    _dynamic(
        "leader.replication.throttled.rate",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "Bytes per second that a broker sends to throttled replicas that are not in sync.",
        low=0,
    ),
    _dynamic(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "Bytes per second of all replicas that move between log directories of a broker.",
        low=0,
    ),
    _dynamic(
        connection_configs.RATE,
        ConfigType.INT,
        _NO_LIMIT_INT,
        "Connections that a broker, or one of its listeners, takes a second; others wait.",
        low=1,
    ),
    _dynamic(
        connection_configs.CONNECTIONS,
        ConfigType.INT,
        _NO_LIMIT_INT,
        "Connections that a broker, or one of its listeners, has at a time; others wait.",
        low=1,
    ),
    _dynamic(
        connection_configs.PER_ADDRESS,
        ConfigType.INT,
        _NO_LIMIT_INT,
        "Connections that a broker has of one address at a time; others are closed.",
        low=1,
    ),
    _dynamic(
        connection_configs.PER_ADDRESS_OVERRIDES,
        ConfigType.STRING,
        "",
        "max.connections.per.ip of some addresses: address:number, with commas between them.",
    ),
    _dynamic(
        "log.cleanup.policy",
        ConfigType.LIST,
        "delete",
        "What becomes of old segments: `delete`, `compact`, or both.",
    ),
    _dynamic(
        "log.flush.interval.messages",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "A log is flushed to disk after this many records.",
    ),
    _dynamic(
        "log.flush.interval.ms",
        ConfigType.LONG,
        None,
        "A log is flushed to disk after this long; log.flush.scheduler.interval.ms if it is not set.",
    ),
    _dynamic(
        "log.index.interval.bytes",
        ConfigType.INT,
        "4096",
        "Bytes of a segment for each entry of its offset index.",
    ),
    _dynamic(
        "log.index.size.max.bytes", ConfigType.INT, "10485760", "The size of an index when full."
    ),
    _dynamic(
        "log.message.timestamp.after.max.ms",
        ConfigType.LONG,
        "3600000",
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    _dynamic(
        "log.message.timestamp.before.max.ms",
        ConfigType.LONG,
        NO_LIMIT_LONG,
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    _dynamic(
        "log.message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "The timestamp of records: the producer's (CreateTime) or the broker's (LogAppendTime).",
    ),
    _dynamic(
        "log.retention.bytes",
        ConfigType.LONG,
        "-1",
        "The oldest segments of a partition larger than this are deleted; -1 is no limit.",
    ),
    _dynamic(
        "log.retention.ms",
        ConfigType.LONG,
        None,
        "Segments older than this are deleted; -1 is no limit.",
    ),
    _dynamic(
        "log.roll.jitter.ms",
        ConfigType.LONG,
        None,
        "A random time up to this is subtracted from log.roll.ms, so that not all logs roll at once.",
    ),
    _dynamic(
        "log.roll.ms",
        ConfigType.LONG,
        None,
        "After this long a log begins a new segment, even if the current one is not full.",
    ),
    _dynamic("log.segment.bytes", ConfigType.INT, "1073741824", "The size of a segment when full."),
    _dynamic(
        "log.segment.delete.delay.ms",
        ConfigType.LONG,
        "60000",
        "How long the files of a deleted segment stay on disk.",
    ),
    _dynamic(
        "message.max.bytes",
        ConfigType.INT,
        "1048588",
        "The largest record batch that is accepted, after compression.",
    ),
    _dynamic(
        "min.insync.replicas",
        ConfigType.INT,
        "1",
        "Replicas that must be in sync for acks=all to succeed.",
    ),
    _dynamic(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        "false",
        "Whether a replica outside of the ISR may lead, and lose records, when no other can.",
    ),
    _dynamic(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "The codec of stored batches. `producer` keeps each batch's own; batches of other codecs"
        " are compressed anew.",
    ),
    _dynamic(
        "compression.gzip.level",
        ConfigType.INT,
        "-1",
        "How hard compression.type=gzip compresses: 1 (fast) to 9, or -1 for zlib's default.",
    ),
    _dynamic(
        "compression.lz4.level",
        ConfigType.INT,
        "9",
        "How hard compression.type=lz4 compresses: 1 to 17; 9, the default, is the fast compressor.",
    ),
    _dynamic(
        "compression.zstd.level",
        ConfigType.INT,
        "3",
        "How hard compression.type=zstd compresses: -131072 (fast) to 22.",
    ),
    _dynamic(
        "log.preallocate",
        ConfigType.BOOLEAN,
        "false",
        "Reserve disk space for a whole segment when it begins.",
    ),
    _dynamic(
        "producer.id.expiration.ms",
        ConfigType.INT,
        str(_DAY_MS),
        "How long a partition remembers an idle producer's sequence numbers.",
        low=1,
    ),
    _dynamic(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        "15000",
        "How long the cleaner waits when there is nothing to compact.",
        low=0,
    ),
    _dynamic(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        str(128 << 20),
        "Memory for the keys of one pass; keys that do not fit need another pass.",
        low=(1 << 20) + 1,
    ),
    _dynamic(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        "1.7976931348623157E308",
        "Bytes per second that compaction may read and write, from its next pass on.",
        low=1,
    ),
)
"""Dynamic configs: defaults of topic configs, rates, limits, and settings of a node's parts."""
