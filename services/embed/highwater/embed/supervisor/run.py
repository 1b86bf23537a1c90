"""`highwater up` with the services as processes."""

from highwater.embed.announce import announce
from highwater.embed.options import UpOptions
from highwater.embed.supervisor.supervisor import Supervisor
from highwater.runtime import lifecycle
from highwater.runtime.logging import (
    LogLevel,
    LogSettings,
    forward_standard_logging,
    make_logger,
)

STOP_TIMEOUT_S = 28.0


def run_supervised(options: UpOptions) -> int:
    """Runs the cluster until a signal or a failure; the process's exit code."""
    level: LogLevel = "info"
    log = make_logger(LogSettings(level=level), service="supervisor")
    forward_standard_logging(log)

    async def build() -> AnnouncedSupervisor:
        return AnnouncedSupervisor(options, log)

    return lifecycle.run(build, log, stop_timeout_s=STOP_TIMEOUT_S)


class AnnouncedSupervisor(Supervisor):
    """Says on standard output when clients can connect."""

    async def start(self) -> None:
        """See Supervisor."""
        await super().start()
        announce(*self.addresses[0])
