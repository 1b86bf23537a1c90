"""Topics of tests: one client creates and inspects them, whichever client is under test."""

from __future__ import annotations

import re
import uuid

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.process import wait_until

_TIMEOUT_S = 30.0
_NAME_LENGTH_MAX = 40


def unique_name(hint: str) -> str:
    """Returns a unique topic or group name with `hint` in it."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", hint).strip("-")[:_NAME_LENGTH_MAX]
    return f"{readable}-{uuid.uuid4().hex[:8]}"


def make_topic(
    bootstrap: str,
    name: str,
    *,
    partitions: int = 1,
    replication: int = 1,
    configs: dict[str, str] | None = None,
) -> str:
    """Creates the topic and returns its name once the leaders of all partitions answer."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(
        name, num_partitions=partitions, replication_factor=replication, config=configs or {}
    )
    admin.create_topics([new], request_timeout=_TIMEOUT_S)[name].result(_TIMEOUT_S)

    def leads() -> bool:
        # Metadata may name a leader that does not know it yet; a leader that answers does.
        nonlocal admin
        try:
            return len(_end_offsets(admin, name, partitions)) == partitions
        except KafkaException:
            # This client repeats "no leaders" from its cache; a new client asks again.
            admin = AdminClient({"bootstrap.servers": bootstrap})
            return False

    wait_until(leads, timeout_s=_TIMEOUT_S, what=f"leaders for {name}")
    return name


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Returns the high watermark of each partition."""
    return _end_offsets(AdminClient({"bootstrap.servers": bootstrap}), topic, partitions)


def _end_offsets(admin: AdminClient, topic: str, partitions: int) -> dict[int, int]:
    # Use a client with earlier requests: librdkafka's admin waits a second or three if it looks for
    # leaders just when its bootstrap broker gets its id.
    asked = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    answers = admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
    return {
        partition.partition: answer.result(_TIMEOUT_S).offset
        for partition, answer in answers.items()
    }


def committed_offsets(bootstrap: str, group: str) -> dict[int, int]:
    """Returns the group's committed offset of each partition of its (one) topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = [ConsumerGroupTopicPartitions(group)]
    answer = admin.list_consumer_group_offsets(asked, request_timeout=_TIMEOUT_S)[group]
    found = answer.result(_TIMEOUT_S).topic_partitions or []
    return {partition.partition: partition.offset for partition in found}
