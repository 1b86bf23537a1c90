"""Settings of a partition node."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from highwater.hop.settings import HopSettings
from highwater.partition.core.disk_marks import DiskMark
from highwater.partition.core.producer_budget import PER_NODE_DEFAULT, PER_PARTITION_DEFAULT
from highwater.rpc.addresses import parse_address
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings, SettingsGroup

INT_MAX: Final = 2**31 - 1
"""Of the settings that are an INT in Kafka."""


def _read_node_id(value: Any) -> Any:
    return -1 if value == "auto" else value


class StorageSettings(SettingsGroup):
    """What a node leaves of its disks."""

    disk_free_min: str = Field(
        default="128MiB",
        description="free space of a log directory's volume, in bytes (also KiB, MiB, GiB) or as a part "
        "(5%), below which clients' produce is refused with KAFKA_STORAGE_ERROR; below half of it "
        "replication and internal topics stop, too. 0 is off",
    )

    @field_validator("disk_free_min")
    @classmethod
    def _check_mark(cls, value: str) -> str:
        DiskMark.parse(value)
        return value


class PartitionConfig(ServiceSettings):
    """See `highwater partition --print-config`."""

    service: ClassVar[str] = "partition"

    host: str = Field(default="127.0.0.1", description="address of the gRPC server")
    port: int = Field(
        default=9500, ge=0, le=65535, description="its port; 0 lets the system choose"
    )
    advertised_address: str = Field(
        default="",
        description="host:port that gateways are told; empty means the server's own, with the "
        "machine's host name if it listens on all addresses",
    )
    node_id: Annotated[int, BeforeValidator(_read_node_id)] = Field(
        default=-1,
        ge=-1,
        description="broker id; auto or -1 takes the one in meta.properties, or the next free one from 1 "
        "on. 0 is for a broker whose gateway has a single port",
    )
    rack: str = Field(default="", description="empty means the machine's host name")
    log_dirs: tuple[Path, ...] = Field(
        default=(Path("data/partition"),), min_length=1, description="directories for segments"
    )
    data_root: Path | None = Field(
        default=None,
        description="directory that several nodes share, instead of log_dirs: each claims a "
        "node-<id> in it, and the id with it",
    )
    controllers: tuple[str, ...] = Field(
        default=("127.0.0.1:9300",), min_length=1, description="host:port of every controller"
    )
    quota_address: str = Field(
        default="127.0.0.1:9400",
        description="host:port of the quota service, or of several, separated by commas: the first one "
        "that answers is used; empty for none",
    )
    group_initial_rebalance_delay_ms: int = Field(
        default=3_000, ge=0, description="group.initial.rebalance.delay.ms"
    )
    group_min_session_timeout_ms: int = Field(
        default=6_000, ge=0, le=INT_MAX, description="group.min.session.timeout.ms"
    )
    group_max_session_timeout_ms: int = Field(
        default=1_800_000, ge=0, le=INT_MAX, description="group.max.session.timeout.ms"
    )
    group_max_size: int = Field(
        default=INT_MAX, ge=1, le=INT_MAX, description="group.max.size: members of a group"
    )
    group_consumer_session_timeout_ms: int = Field(
        default=45_000, ge=1, le=INT_MAX, description="group.consumer.session.timeout.ms"
    )
    group_consumer_min_session_timeout_ms: int = Field(
        default=45_000, ge=1, le=INT_MAX, description="group.consumer.min.session.timeout.ms"
    )
    group_consumer_max_session_timeout_ms: int = Field(
        default=60_000, ge=1, le=INT_MAX, description="group.consumer.max.session.timeout.ms"
    )
    group_consumer_heartbeat_interval_ms: int = Field(
        default=5_000, ge=1, le=INT_MAX, description="group.consumer.heartbeat.interval.ms"
    )
    group_consumer_min_heartbeat_interval_ms: int = Field(
        default=5_000, ge=1, le=INT_MAX, description="group.consumer.min.heartbeat.interval.ms"
    )
    group_consumer_max_heartbeat_interval_ms: int = Field(
        default=15_000, ge=1, le=INT_MAX, description="group.consumer.max.heartbeat.interval.ms"
    )
    group_consumer_assignment_interval_ms: int = Field(
        default=1_000, ge=0, le=INT_MAX, description="group.consumer.assignment.interval.ms"
    )
    group_consumer_min_assignment_interval_ms: int = Field(
        default=0, ge=0, le=INT_MAX, description="group.consumer.min.assignment.interval.ms"
    )
    group_consumer_max_assignment_interval_ms: int = Field(
        default=15_000, ge=0, le=INT_MAX, description="group.consumer.max.assignment.interval.ms"
    )
    group_consumer_max_size: int = Field(
        default=INT_MAX,
        ge=1,
        le=INT_MAX,
        description="group.consumer.max.size: members of a consumer group (KIP-848)",
    )
    group_consumer_assignors: tuple[Literal["uniform", "range"], ...] = Field(
        default=("uniform", "range"),
        min_length=1,
        description="group.consumer.assignors: those that members may ask for, the default first",
    )
    group_consumer_migration_policy: Literal[
        "bidirectional", "upgrade", "downgrade", "disabled"
    ] = Field(
        default="bidirectional",
        description="group.consumer.migration.policy: whether classic groups become consumer groups "
        "and the reverse while members run",
    )
    offset_metadata_max_bytes: int = Field(
        default=4_096,
        ge=0,
        le=INT_MAX,
        description="offset.metadata.max.bytes: the longest note beside a committed offset",
    )
    offsets_retention_minutes: int = Field(
        default=7 * 24 * 60,
        ge=1,
        le=INT_MAX,
        description="offsets.retention.minutes: how long offsets of a group without members are "
        "kept, or those of topics that it reads no longer",
    )
    offsets_retention_check_interval_ms: int = Field(
        default=600_000, ge=1, description="offsets.retention.check.interval.ms"
    )
    transaction_max_timeout_ms: int = Field(
        default=900_000,
        ge=1,
        le=INT_MAX,
        description="transaction.max.timeout.ms: the longest transaction.timeout.ms of a producer",
    )
    transaction_abort_check_interval_ms: int = Field(
        default=10_000,
        ge=1,
        le=INT_MAX,
        description="transaction.abort.timed.out.transaction.cleanup.interval.ms",
    )
    transactional_id_expiration_ms: int = Field(
        default=7 * 24 * 3600 * 1000,
        ge=1,
        le=INT_MAX,
        description="transactional.id.expiration.ms: how long a transactional id is remembered that "
        "nobody uses",
    )
    transactional_id_expiration_check_interval_ms: int = Field(
        default=3_600_000,
        ge=1,
        le=INT_MAX,
        description="transaction.remove.expired.transaction.cleanup.interval.ms",
    )
    producer_id_expiration_ms: int = Field(
        default=24 * 3600 * 1000,
        ge=1,
        le=INT_MAX,
        description="producer.id.expiration.ms: how long a partition remembers the sequence "
        "numbers of a producer that is silent; follows broker configs while the node runs",
    )
    log_flush_interval_ms: int = Field(
        default=9_223_372_036_854_775_807, ge=1, description="log.flush.interval.ms"
    )
    retention_check_interval_ms: int = Field(
        default=300_000, ge=100, description="log.retention.check.interval.ms"
    )
    checkpoint_interval_ms: int = Field(
        default=60_000, ge=100, description="log.flush.offset.checkpoint.interval.ms"
    )
    high_watermark_checkpoint_interval_ms: int = Field(
        default=5_000, ge=100, description="replica.high.watermark.checkpoint.interval.ms"
    )
    producer_ids_per_partition_max: int = Field(
        default=PER_PARTITION_DEFAULT,
        ge=1,
        description="idempotent producers that a partition remembers, some 140 bytes each with one "
        "batch and 330 with five; beyond it the longest silent one is forgotten, as if it had "
        "expired (Kafka has no such limit)",
    )
    producer_ids_per_node_max: int = Field(
        default=PER_NODE_DEFAULT,
        ge=1,
        description="the same over all partitions of the node; beyond it those with most producers "
        "forget some",
    )
    log_cleaner_enable: bool = Field(
        default=True, description="log.cleaner.enable: compact topics whose cleanup.policy says so"
    )
    log_cleaner_backoff_ms: int = Field(
        default=15_000, ge=100, description="log.cleaner.backoff.ms"
    )
    log_cleaner_dedupe_buffer_bytes: int = Field(
        default=128 << 20,
        ge=1 << 20,
        description="log.cleaner.dedupe.buffer.size, of the process that compacts a log: the more "
        "keys fit, 200 bytes each, the fewer passes it takes",
    )
    log_cleaner_io_bytes_per_s: int = Field(
        default=0,
        ge=0,
        description="log.cleaner.io.max.bytes.per.second: bytes read and written; 0 is no limit",
    )
    replica_lag_time_max_ms: int = Field(
        default=10_000, ge=100, description="replica.lag.time.max.ms (Kafka's default is 30 s)"
    )
    replica_selector_class: Literal[
        "", "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    ] = Field(
        default="",
        description="replica.selector.class: Kafka's RackAwareReplicaSelector lets leaders send "
        "consumers that name a rack (client.rack) to followers in it (KIP-392)",
    )
    replica_reads_files: bool = Field(
        default=True,
        description="followers read records from the log directories of leaders on the same host, "
        "if they can open them; otherwise leaders send them",
    )
    acks_1_needs_session: bool = Field(
        default=False,
        description="a leader whose session with the controller has run out, so that another one "
        "may have been elected, refuses appends with acks 0 and 1; as in Kafka it does not",
    )
    log_scrub_bytes_per_s: int = Field(
        default=8 << 20,
        ge=0,
        description="how fast closed segments are read in each log directory, to find bytes that "
        "have changed on the disk; 0 for never",
    )
    log_scrub_interval_ms: int = Field(
        default=24 * 3600 * 1000,
        ge=100,
        description="from the end of one such round over all segments to the next one",
    )
    lineage_notes_dir: Path | None = Field(
        default=None,
        description="where a failed write to a log directory is remembered, outside of it, until the "
        "machine boots; unless set /run/highwater, $XDG_RUNTIME_DIR/highwater or a directory in /tmp",
    )
    drain_s: float = Field(
        default=2.0,
        ge=0,
        description="seconds that a node which stops waits for others to lead, and for running "
        "requests to end",
    )
    drain_catch_up_s: float = Field(
        default=1.0,
        ge=0,
        description="seconds of drain_s that followers have to catch up before others lead; "
        "meanwhile nothing is appended to their partitions. Whoever is slower may lose records of "
        "acks=1",
    )
    storage: StorageSettings = StorageSettings()
    hop: HopSettings = HopSettings()
    inner: InnerSettings = InnerSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()

    @field_validator("advertised_address")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if value:
            parse_address(value)  # Peers would find out, and could do nothing about it.
        return value

    @model_validator(mode="after")
    def _check_session_timeouts(self) -> "PartitionConfig":
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                "group_max_session_timeout_ms must not be less than group_min_session_timeout_ms"
            )
        return self

    @model_validator(mode="after")
    def _check_consumer_groups(self) -> "PartitionConfig":
        for name, shortest, chosen, longest in (
            (
                "session_timeout",
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            ),
            (
                "heartbeat_interval",
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            (
                "assignment_interval",
                self.group_consumer_min_assignment_interval_ms,
                self.group_consumer_assignment_interval_ms,
                self.group_consumer_max_assignment_interval_ms,
            ),
        ):
            if not shortest <= chosen <= longest:
                raise ValueError(
                    f"group_consumer_{name}_ms must be within group_consumer_min_{name}_ms and "
                    f"group_consumer_max_{name}_ms"
                )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ValueError(
                "group_consumer_heartbeat_interval_ms must be less than "
                "group_consumer_session_timeout_ms"
            )
        return self

    @model_validator(mode="after")
    def _check_directories(self) -> "PartitionConfig":
        if self.data_root is not None and "log_dirs" in self.model_fields_set:
            raise ValueError("data_root and log_dirs exclude one another")
        return self

    def as_node(self, node_id: int, log_dir: Path) -> "PartitionConfig":
        """These settings for the node that was claimed in `data_root`."""
        return self.model_copy(update={"node_id": node_id, "log_dirs": (log_dir,)})
