"""`highwater up` with the services as processes."""

from typing import Final

from highwater.embed.supervisor.supervisor import Supervisor
from highwater.embed.up.announce import Announced
from highwater.embed.up.options import UpOptions, cluster_overrides
from highwater.gateway.config import GatewayConfig
from highwater.runtime import lifecycle
from highwater.runtime.logging import forward_standard_logging, make_logger
from highwater.runtime.settings import load_settings

STOP_TIMEOUT_S: Final = 28.0


def run_supervised(options: UpOptions) -> int:
    """Runs the cluster until a signal or a failure; returns the process's exit code.

    Raises ConfigError for invalid settings.
    """
    # The supervisor uses the log settings of its gateways.
    gateway = load_settings(
        GatewayConfig,
        config_file=options.config_file,
        overrides=cluster_overrides(options)["gateway"],
    )
    log = make_logger(gateway.log, service="supervisor")
    forward_standard_logging(log)

    async def build() -> Announced:
        supervisor = Supervisor(options, log)
        return Announced(
            supervisor, lambda: supervisor.addresses[0], lambda: supervisor.metrics_addresses
        )

    return lifecycle.run(build, log, stop_timeout_s=STOP_TIMEOUT_S)
