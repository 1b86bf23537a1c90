"""What the brokers say of topics: ids, partitions and offsets, by the connector's own Kafka client.

The client is Java's Admin of the kafka-clients jar beside the connector, called through PySpark's
gateway: a second client would need its own settings for the same listeners and keys.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from highwater.model.errors import RetriableError, UsageError
from highwater.spark.java_gateway import java

REQUEST_TIMEOUT_MS: Final = 15_000
CALL_TIMEOUT_MS: Final = 60_000
"""For a call with all that it repeats: leaders may be on the move."""

_UNKNOWN: Final = "UnknownTopicOrPartitionException"
_REFUSALS: Final = re.compile(
    r"\w*(?:Authentication|Authorization|InvalidTopic|UnsupportedVersion|UnsupportedSaslMechanism|IllegalSaslState"
    r"|Config|Login|InvalidConfiguration)Exception"
)
"""Names of errors of the client's that stay until somebody changes something."""
_UNRESOLVED: Final = "No resolvable bootstrap urls"
"""Of a ConfigException that a name server may be the reason of."""
_OWN_CONFIG: Final = "DYNAMIC_TOPIC_CONFIG"
"""Where a config comes from that was set on the topic, and not on brokers."""


class TopicMissing(UsageError):
    """A topic that was named is not there, or no topic matches the pattern."""

    reason = "TOPIC_MISSING"


class BrokersRefuse(UsageError):
    """The brokers do not let this client in, or a setting or a name is wrong."""

    reason = "BROKERS_REFUSE"


class PatternUnusable(UsageError):
    """A pattern of topics that is no regular expression."""

    reason = "PATTERN_UNUSABLE"


class BrokersAway(RetriableError):
    """No broker answers, or a partition has no leader."""

    reason = "BROKERS_AWAY"


def check_pattern(pattern: str | None) -> None:
    """Raises PatternUnusable for a pattern that is no regular expression; None is none."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise PatternUnusable(f"--pattern {pattern!r} is no regular expression: {error}") from error


class TopicChanged(RetriableError):
    """A topic was deleted, or made anew, between two questions about it."""

    reason = "TOPIC_CHANGED"


class TopicPartition(NamedTuple):
    """A partition of a topic, which sorts by name and number."""

    topic: str
    partition: int


class TopicState(NamedTuple):
    """A topic as the brokers describe it."""

    topic_id: str
    partitions: int


class Brokers:
    """The brokers at `bootstrap`; close it, or use it in a `with` statement.

    All methods raise BrokersAway, BrokersRefuse, and TopicMissing for topics that were deleted meanwhile.
    """

    def __init__(
        self, spark: SparkSession, bootstrap: str, kafka: Mapping[str, str] | None = None
    ) -> None:
        """Use the connector's options `kafka`, whose names begin with `kafka.`, for the client."""
        self._jvm = java(spark)
        self._bootstrap = bootstrap
        settings = self._jvm.java.util.Properties()
        for name, value in (kafka or {}).items():
            settings.put(name.removeprefix("kafka."), value)
        settings.put("bootstrap.servers", bootstrap)
        settings.put("request.timeout.ms", str(REQUEST_TIMEOUT_MS))
        settings.put("default.api.timeout.ms", str(CALL_TIMEOUT_MS))
        with self._translated():
            self._admin: Any = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the client."""
        self._admin.close()

    def topics(self, names: Iterable[str], pattern: str | None = None) -> dict[str, TopicState]:
        """Returns the named topics and those that match `pattern` as a whole, without internal ones.

        Raises TopicMissing for a name that is not there, and if there is no topic at all; PatternUnusable.
        """
        check_pattern(pattern)
        wanted = sorted(set(names))
        with self._translated():
            there = set(self._admin.listTopics().names().get())
            if missing := [name for name in wanted if name not in there]:
                raise TopicMissing(f"no topic {', '.join(missing)} at {self._bootstrap}")
            if pattern is not None:
                wanted += [name for name in sorted(there) if re.fullmatch(pattern, name)]
            wanted = sorted(set(wanted))
            if not wanted:
                raise TopicMissing(f"no topic at {self._bootstrap} matches {pattern!r}")
            return self._described(wanted)

    def names(self) -> set[str]:
        """Returns the names of all topics but internal ones."""
        with self._translated():
            return set(self._admin.listTopics().names().get())

    def existing(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Returns those of the named topics that are there."""
        with self._translated():
            there = set(self._admin.listTopics().names().get())
            return self._described(sorted(there.intersection(names)))

    def changed(self, topics: Mapping[str, TopicState]) -> list[str]:
        """Returns the names of those topics that are not there any more, or have another id."""
        now = self.existing(topics)
        return sorted(
            name
            for name, topic in topics.items()
            if name not in now or now[name].topic_id != topic.topic_id
        )

    def _described(self, names: list[str]) -> dict[str, TopicState]:
        described = self._admin.describeTopics(self._list(names)).allTopicNames().get()
        return {
            name: TopicState(
                str(described.get(name).topicId()), described.get(name).partitions().size()
            )
            for name in names
        }

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the log start offset of each partition."""
        return self._offsets(partitions, self._spec.earliest())

    def latest(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool = True
    ) -> dict[TopicPartition, int]:
        """Returns the offset behind the last record that a consumer may read now."""
        return self._offsets(partitions, self._spec.latest(), read_committed=read_committed)

    def at_time(
        self, partitions: Iterable[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        """Returns the first offset whose record is of `time_ms` (since 1970) or later.

        A partition without such a record is left out.
        """
        found = self._offsets(partitions, self._spec.forTimestamp(time_ms))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def cluster_id(self) -> str:
        """Returns the cluster's id."""
        with self._translated():
            return str(self._admin.describeCluster().clusterId().get())

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Returns the configs that each topic has of its own, without those that are secret."""
        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        asked = {name: resource(resource.Type.TOPIC, name) for name in sorted(set(names))}
        with self._translated():
            answered = self._admin.describeConfigs(self._list(list(asked.values()))).all().get()
            return {
                name: {
                    str(entry.name()): str(entry.value())
                    for entry in self._jvm.java.util.ArrayList(answered.get(key).entries())
                    if str(entry.source()) == _OWN_CONFIG and entry.value() is not None
                }
                for name, key in asked.items()
            }

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Returns the offsets that a consumer group has committed; none if there is no such group."""
        with self._translated():
            asked = self._admin.listConsumerGroupOffsets(group)
            found = asked.partitionsToOffsetAndMetadata().get()
            return {
                TopicPartition(str(key.topic()), int(key.partition())): int(found.get(key).offset())
                for key in found
                if found.get(key) is not None
            }

    @property
    def _spec(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.OffsetSpec

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        levels = self._jvm.org.apache.kafka.common.IsolationLevel
        level = levels.READ_COMMITTED if read_committed else levels.READ_UNCOMMITTED
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
        asked = self._jvm.java.util.HashMap()
        keys = {
            each: self._jvm.org.apache.kafka.common.TopicPartition(each.topic, each.partition)
            for each in partitions
        }
        for key in keys.values():
            asked.put(key, spec)
        with self._translated():
            answered = self._admin.listOffsets(asked, options).all().get()
            return {each: int(answered.get(key).offset()) for each, key in keys.items()}

    def _list(self, items: list[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return found

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns the client's errors into ours; what is left is a bug of ours."""
        try:
            yield
        except Py4JJavaError as error:
            cause = error.java_exception
            while cause.getCause() is not None:
                cause = cause.getCause()
            name = str(cause.getClass().getSimpleName())
            text = f"{name}: {cause.getMessage()}"
            if _UNKNOWN in text:
                raise TopicMissing(f"a topic was deleted meanwhile: {text}") from error
            if _REFUSALS.fullmatch(name) and _UNRESOLVED not in text:
                raise BrokersRefuse(
                    f"the client of {self._bootstrap} is refused: {text}"
                ) from error
            raise BrokersAway(f"{self._bootstrap} does not answer: {text}") from error
