"""`highwater up` with everything in this process."""

from highwater.controller.config import ControllerConfig
from highwater.embed.embedded.broker import BrokerSettings, EmbeddedBroker
from highwater.embed.up.announce import Announced
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import (
    UP_DEFAULTS,
    UpOptions,
    cluster_overrides,
    up_defaults,
    with_own,
)
from highwater.embed.up.ports import check_ports
from highwater.gateway.config import GatewayConfig
from highwater.partition.config import PartitionConfig
from highwater.quota.config import QuotaConfig
from highwater.runtime import lifecycle
from highwater.runtime.logging import forward_standard_logging, make_logger
from highwater.runtime.memory import keep_freed_memory
from highwater.runtime.settings import load_settings


def run_embedded(options: UpOptions) -> int:
    """Runs the embedded broker until a signal or a failure; returns the process's exit code.

    Raises UsageError for invalid settings.
    """
    settings = broker_settings(options)
    # Check before starting anything, so that a taken port is the only line of output.
    for listener in settings.gateway.all_listeners.values():
        check_ports(listener.host, listener.port)
    if settings.metrics_port:
        check_ports(settings.gateway.metrics.host, settings.metrics_port)
    keep_freed_memory()
    log = make_logger(settings.gateway.log)
    forward_standard_logging(log)

    async def build() -> Announced:
        broker = EmbeddedBroker(settings, log)
        return Announced(
            broker, lambda: (options.host, broker.port), lambda: broker.metrics_addresses
        )

    return lifecycle.run(build, log)


def broker_settings(options: UpOptions) -> BrokerSettings:
    """The settings of all services. Raises ConfigError."""
    data = DataDir(options.data_dir)
    overrides = cluster_overrides(options)
    overrides["controller"] = with_own(
        "controller",
        overrides["controller"],
        {
            "host": "127.0.0.1",
            "port": 0,
            "controller_id": "embedded",
            "data_dir": data.controller,
        },
    )
    overrides["partition"] = with_own(
        "partition",
        overrides["partition"],
        {"log_dirs": (data.node(1),), "quota_address": ""},
    )
    overrides["gateway"] = with_own(
        "gateway", overrides["gateway"], {"port": options.port, "single_port": True}
    )
    file = options.config_file
    gateway = load_settings(
        GatewayConfig,
        config_file=file,
        overrides=overrides["gateway"],
        defaults=UP_DEFAULTS["gateway"],
    )
    return BrokerSettings(
        data_dir=data,
        metrics_port=options.metrics_port_of(gateway.metrics),
        controller=load_settings(
            ControllerConfig,
            config_file=file,
            overrides=overrides["controller"],
            defaults=up_defaults("controller", options),
        ),
        quota=load_settings(
            QuotaConfig,
            config_file=file,
            overrides=overrides["quota"],
            defaults=UP_DEFAULTS["quota"],
        ),
        partition=load_settings(
            PartitionConfig,
            config_file=file,
            overrides=overrides["partition"],
            defaults=UP_DEFAULTS["partition"],
        ),
        gateway=gateway,
    )
