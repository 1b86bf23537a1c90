"""The current leader, sent along with an error so that clients go there at once (KIP-951).

The refusing node may know a newer leader than this gateway, or an older one. The client gets the
newer of both, and the routing table remembers it: later Metadata answers must not be older.
"""

from typing import Final, NamedTuple

from highwater.gateway.routing.brokers import Broker, Entrance, broker_of
from highwater.gateway.routing.table import TopicRoutes
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import NodeId

NAMES_LEADER: Final = frozenset((
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    int(ErrorCode.FENCED_LEADER_EPOCH),
))  # fmt: skip
"""The errors after which Kafka names the current leader (KafkaApis.getCurrentLeader)."""


class CurrentLeader(NamedTuple):
    """A leader, its epoch, and its address for the client if it has one."""

    leader: int
    leader_epoch: int
    broker: Broker | None


def leader_for_error(
    error_code: int,
    routes: TopicRoutes | None,
    partition: int,
    leader: int,
    leader_epoch: int,
    entrance: Entrance,
) -> CurrentLeader | None:
    """As `current_leader`, for a partition's result; None if its error names no leader."""
    if routes is None or error_code not in NAMES_LEADER:
        return None
    return current_leader(routes, partition, leader, leader_epoch, entrance)


def current_leader(
    routes: TopicRoutes, partition: int, leader: int, leader_epoch: int, entrance: Entrance
) -> CurrentLeader | None:
    """The newer of the node's leader (-1: unknown) and the image's; None without a leader.

    The address is that of the client's listener and instance.
    """
    if not 0 <= partition < len(routes.partitions):
        return None
    route = routes.partitions[partition]
    if route.leader_epoch >= leader_epoch:
        leader, leader_epoch = route.leader, route.leader_epoch
    if leader < 0:
        return None
    table = routes.table
    table.told(route, leader_epoch)
    image = table.image
    broker = None if image is None else broker_of(image, NodeId(leader), entrance)
    return CurrentLeader(leader, leader_epoch, broker)
