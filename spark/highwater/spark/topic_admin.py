"""Topics that streaming jobs read from and write to: which they are, and made where they are missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.model.errors import HighwaterError, RetriableError, UsageError

TIMEOUT_S: Final = 30.0
ANSWER_S: Final = TIMEOUT_S + 15
"""How long to wait for a request's future: the client, which ends it after TIMEOUT_S, says why; we would not."""
LOG_LEVEL: Final = 0
"""The client logs nothing: what matters becomes an error here."""

COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
"""Configs of topics that keep the latest value of each key."""


class ClusterAway(RetriableError):
    """No broker answers, or one refuses to."""

    reason = "CLUSTER_AWAY"


class ClusterRefuses(UsageError):
    """The cluster does not let this client in, or a name or a config is wrong."""

    reason = "CLUSTER_REFUSES"


class NoSuchTopic(UsageError):
    """There is no such topic."""

    reason = "NO_SUCH_TOPIC"


REFUSALS: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 # The client's own names for its own errors.
        KafkaError._INVALID_ARG,  # noqa: SLF001 # As above.
        KafkaError._SSL,  # noqa: SLF001 # As above.
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.UNSUPPORTED_VERSION,
    }
)
"""Errors that stay until somebody changes something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    """What tells a topic from any other: a topic that is deleted and made anew has another id."""

    cluster_id: str
    topic: str
    topic_id: str


class TopicAdmin:
    """One client to the cluster at `bootstrap`, for as long as a job starts."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str] | None = None) -> None:
        """Use more settings of the client, librdkafka's."""
        self._bootstrap = bootstrap
        # No types for this client.
        self._client: Any = AdminClient(
            {
                "socket.timeout.ms": 10_000,
                **(settings or {}),
                "bootstrap.servers": bootstrap,
                "log_level": LOG_LEVEL,
            }
        )

    def identify(self, topic: str) -> TopicIdentity:
        """Returns who the topic is. Raises NoSuchTopic, ClusterAway, ClusterRefuses."""
        try:
            cluster = self._client.list_topics(timeout=TIMEOUT_S).cluster_id
            futures = self._client.describe_topics(
                TopicCollection([topic]), request_timeout=TIMEOUT_S
            )
            described = futures[topic].result(ANSWER_S)
        except KafkaException as error:
            raise self._translated(error, topic) from error
        except TimeoutError as error:
            raise self._silent(topic) from error
        return TopicIdentity(cluster_id=str(cluster), topic=topic, topic_id=str(described.topic_id))

    def ensure(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> bool:
        """Makes the topic if there is none of its name; returns whether. Raises ClusterAway, ClusterRefuses.

        Its replication factor is the brokers' default.
        """
        new = NewTopic(topic, num_partitions=partitions, config=dict(configs))
        try:
            futures = self._client.create_topics([new], request_timeout=TIMEOUT_S)
            futures[topic].result(ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise self._translated(error, topic) from error
        except TimeoutError as error:
            raise self._silent(topic) from error
        return True

    def _silent(self, topic: str) -> ClusterAway:
        return ClusterAway(f"the cluster at {self._bootstrap}, topic {topic}: no answer")

    def _translated(self, error: KafkaException, topic: str) -> HighwaterError:
        cause = error.args[0]
        if cause.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return NoSuchTopic(f"there is no topic {topic} at {self._bootstrap}")
        text = f"the cluster at {self._bootstrap}, topic {topic}: {cause.str()}"
        return ClusterRefuses(text) if cause.code() in REFUSALS else ClusterAway(text)
