"""Types, sources and resources of configs, with the numbers of Kafka's protocol."""

from enum import IntEnum


class ConfigType(IntEnum):
    """The type of a config's value, which is always sent as a string."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigResourceType(IntEnum):
    """Resources with configs (Kafka: ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value; of those of a topic or broker a smaller number wins over a larger one."""

    DYNAMIC_TOPIC = 1
    """Set on the topic."""
    DYNAMIC_BROKER = 2
    """Set on one broker while it runs."""
    DYNAMIC_DEFAULT_BROKER = 3
    """Set on all brokers (resource name "")."""
    STATIC_BROKER = 4
    """Set in the service's settings at start."""
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    """The level of a logger, whoever set it."""
    CLIENT_METRICS = 7
    """Set on a client metrics subscription."""
    GROUP = 8
    """Set on a group."""
