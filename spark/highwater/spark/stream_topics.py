"""The topics of a streaming job, through the connector's own Kafka client: who one is, and made if missing.

It is Java's client, so that `--kafka` has the same names for it as for what reads and writes.
"""

from collections.abc import Mapping

from highwater.spark.brokers import Brokers, TopicMissing
from highwater.spark.stream_errors import RecordsGone
from highwater.spark.topic_admin import TopicIdentity


class StreamTopics(Brokers):
    """One client for as long as a job runs; batches and the main thread may call it at once."""

    def identify(self, topic: str) -> TopicIdentity:
        """Returns who the topic is. Raises TopicMissing, BrokersAway."""
        found = self.topics([topic])[topic]
        return TopicIdentity(cluster_id=self.cluster_id(), topic=topic, topic_id=found.topic_id)

    def ensure(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> bool:
        """Makes the topic if there is none of its name; returns whether. Raises BrokersAway.

        Its replication factor is the brokers' default.
        """
        if topic in self.names():
            return False
        optional = self._jvm.java.util.Optional
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic(
            topic, optional.of(partitions), optional.empty()
        )
        given = self._jvm.java.util.HashMap()
        for name, value in configs.items():
            given.put(name, value)
        with self._translated():
            self._admin.createTopics(self._list([new.configs(given)])).all().get()
        return True

    def check(self, identity: TopicIdentity) -> None:
        """Raises RecordsGone if the topic is not the one that it was, BrokersAway. One request."""
        topic = identity.topic
        try:
            with self._translated():
                found = self._described([topic])[topic]
        except TopicMissing as error:
            raise RecordsGone(f"the topic {topic} was deleted while it was read") from error
        if found.topic_id != identity.topic_id:
            raise RecordsGone(f"the topic {topic} was deleted and made anew while it was read")
