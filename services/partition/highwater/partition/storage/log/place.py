"""What the parts of one log share: where it lies, how it is configured, what is around it."""

from highwater.model.time import Clock
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log_life import LogLife


class LogPlace:
    """Lives as long as its log. `directory` and `config` are set by `PartitionLog` alone."""

    __slots__ = ("clock", "config", "directory", "environment", "filesystem", "life")

    def __init__(
        self, directory: str, *, config: LogConfig, clock: Clock, environment: LogEnvironment
    ) -> None:
        """Of a log that was just opened."""
        self.directory = directory
        self.config = config
        self.clock = clock
        self.environment = environment
        self.filesystem = environment.filesystem
        self.life = LogLife()
