"""The part of `broker_config_table` about groups that may not be changed while brokers run."""

from typing import Final

from highwater.model.config_type import ConfigType

INT_MAX: Final = 2**31 - 1

GROUP_COORDINATION: Final = (
    (
        "group.consumer.assignors",
        ConfigType.LIST,
        "uniform,range",
        "The assignors that members of consumer groups may ask for; the first is the default.",
    ),
    (
        "group.consumer.heartbeat.interval.ms",
        ConfigType.INT,
        "5000",
        "How often members of consumer groups send heartbeats.",
    ),
    (
        "group.consumer.max.assignment.interval.ms",
        ConfigType.INT,
        "15000",
        "The longest assignment interval of a consumer group.",
    ),
    (
        "group.consumer.max.heartbeat.interval.ms",
        ConfigType.INT,
        "15000",
        "The longest heartbeat interval of a consumer group.",
    ),
    (
        "group.consumer.max.session.timeout.ms",
        ConfigType.INT,
        "60000",
        "The longest session timeout of a consumer group.",
    ),
    (
        "group.consumer.max.size",
        ConfigType.INT,
        str(INT_MAX),
        "The most members that a consumer group may have.",
    ),
    (
        "group.consumer.migration.policy",
        ConfigType.STRING,
        "bidirectional",
        "Whether classic groups become consumer groups and the reverse while members run.",
    ),
    (
        "group.consumer.min.assignment.interval.ms",
        ConfigType.INT,
        "0",
        "The shortest assignment interval of a consumer group.",
    ),
    (
        "group.consumer.min.heartbeat.interval.ms",
        ConfigType.INT,
        "5000",
        "The shortest heartbeat interval of a consumer group.",
    ),
    (
        "group.consumer.min.session.timeout.ms",
        ConfigType.INT,
        "45000",
        "The shortest session timeout of a consumer group.",
    ),
    (
        "group.consumer.session.timeout.ms",
        ConfigType.INT,
        "45000",
        "How long a member of a consumer group may be silent.",
    ),
    (
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        "3000",
        "How long the first rebalance of an empty group waits for more members.",
    ),
    (
        "group.max.session.timeout.ms",
        ConfigType.INT,
        "1800000",
        "The longest session timeout that a group member may have.",
    ),
    (
        "group.max.size",
        ConfigType.INT,
        str(INT_MAX),
        "The most members that a group may have.",
    ),
    (
        "group.min.session.timeout.ms",
        ConfigType.INT,
        "6000",
        "The shortest session timeout that a group member may have.",
    ),
)
"""(name, type, default, documentation)."""
