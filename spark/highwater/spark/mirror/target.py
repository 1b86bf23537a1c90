"""The target's topics: what is there, and copies made and grown.

Configs are those of the source's topic where they say what is kept and what may be written. Others speak of
the source's brokers, or of how much a cluster risks (`min.insync.replicas`), and are the target's own matter.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from highwater.spark.mirror.clients import (
    CopyRefused,
    Failure,
    TargetClients,
    Trouble,
    error_of,
    failure,
)
from highwater.spark.topic_admin import ANSWER_S, TIMEOUT_S

_LOOK_S: Final = 0.1

COPIED_CONFIGS: Final = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)
"""Taken over when a copy is made, if the source's topic has them of its own."""

OFFSETS_CONFIGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # Small segments: the one that is written is not compacted, and all of it is read at every start.
    "segment.bytes": str(16 * 1024 * 1024),
}
BATCH_BYTES_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """A topic of the target."""

    topic_id: str
    partitions: int


def copied_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a source topic's own configs that its copy gets."""
    return {name: configs[name] for name in COPIED_CONFIGS if name in configs}


def batch_bytes(topic: str, configs: Mapping[str, str]) -> int:
    """Returns how large batches of a copy may be. Raises CopyRefused if it does not keep timestamps."""
    if configs.get("message.timestamp.type") == "LogAppendTime":
        raise CopyRefused(
            f"{topic} has message.timestamp.type=LogAppendTime: the records of a copy keep their own "
            "timestamps, set it to CreateTime"
        )
    return min(BATCH_BYTES_MAX, int(configs.get("max.message.bytes", BATCH_BYTES_MAX)))


class TargetCluster:
    """One client of the target, for as long as a mirror runs.

    All methods raise ClusterAway, CopyRefused and MirrorFailed.
    """

    def __init__(self, clients: TargetClients) -> None:
        self._bootstrap = clients.bootstrap
        self._admin: Any = clients.admin()

    def cluster_id(self) -> str:
        """Returns the cluster's id."""
        try:
            return str(self._admin.list_topics(timeout=TIMEOUT_S).cluster_id)
        except KafkaException as error:
            raise self._error(error, "cluster") from error

    def names(self) -> set[str]:
        """Returns the names of all topics."""
        try:
            return set(self._admin.list_topics(timeout=TIMEOUT_S).topics)
        except KafkaException as error:
            raise self._error(error, "topics") from error

    def topics(self, names: Iterable[str]) -> dict[str, TargetTopic]:
        """Returns those of the named topics that are there, with leaders of all partitions."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=TIMEOUT_S)
        found = {}
        for name, future in futures.items():
            try:
                described = future.result(ANSWER_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._error(error, f"topic {name}") from error
            if all(each.leader is not None for each in described.partitions):
                found[name] = TargetTopic(
                    topic_id=str(described.topic_id), partitions=len(described.partitions)
                )
        return found

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the configs of topics, their own and those of the brokers."""
        found = {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(names))]
        if not asked:
            return {}
        futures = self._admin.describe_configs(asked, request_timeout=TIMEOUT_S)
        for resource, future in futures.items():
            try:
                entries = future.result(ANSWER_S)
            except KafkaException as error:
                raise self._error(error, f"topic {resource.name}") from error
            found[str(resource.name)] = {
                str(name): str(entry.value)
                for name, entry in entries.items()
                if entry.value is not None
            }
        return found

    def has_records(self, name: str, partitions: int) -> bool:
        """Whether a topic has, or had, records."""
        places = {TopicPartition(name, number): OffsetSpec.latest() for number in range(partitions)}
        try:
            futures = self._admin.list_offsets(places, request_timeout=TIMEOUT_S)
            return any(future.result(ANSWER_S).offset > 0 for future in futures.values())
        except KafkaException as error:
            raise self._error(error, f"topic {name}") from error

    def create(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> bool:
        """Makes a topic if there is none of its name, and waits for its leaders; returns whether it was made.

        Its replication factor is the brokers' default.
        """
        new = NewTopic(name, num_partitions=partitions, config=dict(configs))
        try:
            self._admin.create_topics([new], request_timeout=TIMEOUT_S)[name].result(ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._error(error, f"topic {name}") from error
            return False
        self._wait(name, partitions)
        return True

    def grow(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic, up to so many, and waits for their leaders."""
        try:
            futures = self._admin.create_partitions(
                [NewPartitions(name, partitions)], request_timeout=TIMEOUT_S
            )
            futures[name].result(ANSWER_S)
        except KafkaException as error:
            raise self._error(error, f"topic {name}") from error
        self._wait(name, partitions)

    def _wait(self, name: str, partitions: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s:
            found = self.topics([name])
            if name in found and found[name].partitions >= partitions:
                return
            time.sleep(_LOOK_S)
        text = f"topic {name} at {self._bootstrap} has no leaders yet"
        raise error_of(Failure(trouble=Trouble.AWAY, text=text))

    def _error(self, error: KafkaException, what: str) -> Exception:
        return error_of(failure(error.args[0], f"{what} at {self._bootstrap}"))
