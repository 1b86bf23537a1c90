"""Subscriptions to the metrics of clients (KIP-714): which configs they have.

Source: `org.apache.kafka.server.metrics.ClientMetricsConfigs`. They are kept and shown; no client is
asked to push its metrics yet.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from highwater.model.config_type import ConfigType
from highwater.model.ids import InstanceId


class ClientMetricsKey(NamedTuple):
    """One subscription; names are unique in an instance."""

    instance: InstanceId
    name: str


class ClientMetricsConfig(NamedTuple):
    """One config of a subscription."""

    type: ConfigType
    default: str
    documentation: str


METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"

CLIENT_METRICS_CONFIGS: Final[Mapping[str, ClientMetricsConfig]] = {
    INTERVAL_MS: ClientMetricsConfig(
        ConfigType.INT, "300000", "How often clients would push their metrics, in milliseconds."
    ),
    MATCH: ClientMetricsConfig(
        ConfigType.LIST,
        "",
        "Which clients: properties with regular expressions, all of which must match. Empty: all.",
    ),
    METRICS: ClientMetricsConfig(
        ConfigType.LIST, "", "Prefixes of the names of metrics. Empty: none; *: all."
    ),
}
"""By name, in alphabetical order."""

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

MATCH_PROPERTIES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""The properties of a client that `match` may name."""
