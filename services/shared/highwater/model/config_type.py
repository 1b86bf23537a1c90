"""Types and origins of configs, and what has configs, numbered as Kafka's protocol does."""

from enum import IntEnum


class ConfigType(IntEnum):
    """How a config's value, which always travels as a string, is to be read."""

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
    """What has configs (Kafka: ConfigResource.Type); others of Kafka's have none here."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from; a smaller number wins over a larger one."""

    DYNAMIC_TOPIC = 1
    """Set on the topic."""
    DYNAMIC_BROKER = 2
    """Set on one broker while it runs."""
    DYNAMIC_DEFAULT_BROKER = 3
    """Set on all brokers (resource name "")."""
    STATIC_BROKER = 4
    """From the service's settings at start."""
    DEFAULT = 5
