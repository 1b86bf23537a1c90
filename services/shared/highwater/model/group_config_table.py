"""The configs that a group can have (config resources of type 32), and whose they are.

Source: `org.apache.kafka.coordinator.group.GroupConfig` of Kafka 4.3. Only those that a coordinator here
goes by are listed: nothing else of consumer groups, and nothing of share and streams groups.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from highwater.model.ids import InstanceId


class GroupConfigKey(NamedTuple):
    """One group, which need not exist."""

    instance: InstanceId
    group_id: str


class GroupConfigEntry(NamedTuple):
    """One config, an int, and the broker configs behind it with Kafka's defaults."""

    name: str
    broker_config: str
    """Has the value of groups that do not set it."""
    default: int
    low_config: str
    low: int
    high_config: str
    high: int
    documentation: str
    least: int = 1
    """Of any value, whatever a broker allows."""


HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"

_ALL: Final = (
    GroupConfigEntry(
        name=HEARTBEAT_INTERVAL_MS,
        broker_config="group.consumer.heartbeat.interval.ms",
        default=5_000,
        low_config="group.consumer.min.heartbeat.interval.ms",
        low=5_000,
        high_config="group.consumer.max.heartbeat.interval.ms",
        high=15_000,
        documentation="How often members of the group send heartbeats (consumer protocol).",
    ),
    GroupConfigEntry(
        name=SESSION_TIMEOUT_MS,
        broker_config="group.consumer.session.timeout.ms",
        default=45_000,
        low_config="group.consumer.min.session.timeout.ms",
        low=45_000,
        high_config="group.consumer.max.session.timeout.ms",
        high=60_000,
        documentation="A member without a heartbeat for this long is removed (consumer protocol).",
    ),
    GroupConfigEntry(
        name=ASSIGNMENT_INTERVAL_MS,
        broker_config="group.consumer.assignment.interval.ms",
        default=1_000,
        low_config="group.consumer.min.assignment.interval.ms",
        low=0,
        high_config="group.consumer.max.assignment.interval.ms",
        high=15_000,
        documentation="What changes in the group within this long after a target assignment waits for the "
        "next one (consumer protocol).",
        least=0,
    ),
)

GROUP_CONFIGS: Final[Mapping[str, GroupConfigEntry]] = {entry.name: entry for entry in _ALL}
"""By name, in the order in which Kafka checks them."""
