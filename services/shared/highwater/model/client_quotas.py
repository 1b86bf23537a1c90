"""Client quotas: limits for users, client ids and addresses of an instance (KIP-13, KIP-546).

They are what Kafka's clients set and read. The limits of a whole instance, which the quota service
divides among nodes, are `highwater.model.cluster.InstanceState`; the two know nothing of each other.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from highwater.model.ids import InstanceId

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
"""Only for addresses."""

ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})
"""The parts that an entity may have (`ClientQuotaEntity` in Kafka)."""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names, by type; the name None stands for all that have no quota of their own."""


class ClientQuotaKey(NamedTuple):
    """Whom a quota is for."""

    instance: InstanceId
    entity: QuotaEntity


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity with these parts. Of several parts of one type the last one counts, as in Kafka."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))
