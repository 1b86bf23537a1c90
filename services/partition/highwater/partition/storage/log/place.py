"""What the parts of one log share: directory, configs, environment."""

from highwater.model.time import Clock
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import LogEnvironment
from highwater.partition.storage.log_life import LogLife


class LogPlace:
    """Lives as long as its log. Only `PartitionLog`, `LogClosing` and `LogRelocation` set its
    attributes; parts that keep one of them follow a relocation (`log_events.FollowsPlace`).
    """

    __slots__ = ("clock", "config", "directory", "environment", "filesystem", "life")

    def __init__(
        self, directory: str, *, config: LogConfig, clock: Clock, environment: LogEnvironment
    ) -> None:
        """For a log that was just opened."""
        self.directory = directory
        self.config = config
        self.clock = clock
        self.environment = environment
        self.filesystem = environment.filesystem
        self.life = LogLife()
