"""Creates topics with several replicas by Kafka's admin client."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster_view import is_whole, wait_for_view

_TIMEOUT_S = 30.0


def make_replicated_topic(
    bootstrap: str,
    name: str,
    *,
    partitions: int,
    replication_factor: int = 3,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Creates a topic with a name of its own; returns the name once all replicas are in sync."""
    topic = f"{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(
        topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        config=dict(configs or {}),
    )
    admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S)
    wait_for_view(
        bootstrap, topic, is_whole, timeout_s=_TIMEOUT_S, what=f"leaders and ISRs of {topic}"
    )
    return topic
