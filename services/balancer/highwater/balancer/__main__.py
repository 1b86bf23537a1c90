"""A balancer as a process of its own."""

import sys

from highwater.balancer.config import BalancerConfig
from highwater.balancer.service import BalancerService
from highwater.model.errors import EXIT_USAGE, UsageError
from highwater.runtime import lifecycle
from highwater.runtime.logging import forward_standard_logging, make_logger
from highwater.runtime.metrics import process_registry
from highwater.runtime.settings import load_settings


def run(config: BalancerConfig) -> int:
    """Runs a balancer until a signal or a failure; the process's exit code."""
    log = make_logger(config.log, service="balancer")
    forward_standard_logging(log)

    async def build() -> BalancerService:
        return BalancerService(config, registry=process_registry(), log=log)

    return lifecycle.run(build, log)


def main() -> int:
    """Runs a balancer with settings from the environment."""
    try:
        return run(load_settings(BalancerConfig))
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
