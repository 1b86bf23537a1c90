"""`highwater controller`: one controller process."""

import sys

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.model.errors import EXIT_USAGE, UsageError
from highwater.runtime import lifecycle
from highwater.runtime.logging import forward_standard_logging, make_logger
from highwater.runtime.settings import load_settings


def run(config: ControllerConfig) -> int:
    """Runs a controller until a signal or a failure; the process's exit code."""
    log = make_logger(config.log)
    forward_standard_logging(log)

    async def build() -> ControllerService:
        return ControllerService(config, log=log)

    return lifecycle.run(build, log)


def main() -> int:
    """Runs a controller with settings from the environment."""
    try:
        return run(load_settings(ControllerConfig))
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
