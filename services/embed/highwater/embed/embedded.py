"""`highwater up` with everything in this process."""

from highwater.embed.broker import BrokerSettings, EmbeddedBroker
from highwater.runtime import lifecycle
from highwater.runtime.logging import LogSettings, forward_standard_logging, make_logger
from highwater.runtime.memory import keep_freed_memory


def run_embedded(settings: BrokerSettings) -> int:
    """Runs the embedded broker until a signal or a failure; the process's exit code."""
    keep_freed_memory()
    log = make_logger(LogSettings())
    forward_standard_logging(log)

    async def build() -> "AnnouncedBroker":
        return AnnouncedBroker(settings, log)

    return lifecycle.run(build, log)


class AnnouncedBroker(EmbeddedBroker):
    """Says on standard output when clients can connect."""

    async def start(self) -> None:
        """See EmbeddedBroker."""
        await super().start()
        print(f"Highwater is ready on {self._settings.host}:{self.port}", flush=True)  # noqa: T201
