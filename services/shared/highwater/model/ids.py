"""Ids as types, so that a partition is never passed in place of a node."""

from typing import Final, NewType

InstanceId = NewType("InstanceId", str)
"""A tenant's instance; topic, group and transactional names are scoped by it."""

TopicId = NewType("TopicId", bytes)
"""Sixteen raw bytes of a UUID (KIP-516); never reused, also not by a topic of the same name."""

NodeId = NewType("NodeId", int)
"""A partition node, which is a Kafka broker id to clients. Starts at 1; -1 is no node."""

GatewayId = NewType("GatewayId", str)
ProducerId = NewType("ProducerId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
Offset = NewType("Offset", int)

DEFAULT_INSTANCE: Final = InstanceId("default")
"""The instance of the plain port: single-tenant users need not know of instances."""

SYSTEM_INSTANCE: Final = InstanceId("_system")
"""Has what instances share and clients do not see. Nobody's: no port stands for it."""

NO_NODE: Final = NodeId(-1)
NO_TOPIC_ID: Final = TopicId(bytes(16))
"""The all-zero UUID, which Kafka uses for "no topic id"."""

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})

INTERNAL_REPLICAS_MAX: Final = 3
"""Default replicas of internal topics, if there are so many nodes."""
