"""The levels of a process's loggers, which operators may change while it runs (KIP-412).

A logger is a service, by the name that its events carry (`service`), or `root`: the level of root
holds for services without one of their own, and for events of no service.
"""

from collections.abc import Mapping
from typing import Final

ROOT: Final = "root"
"""Its name in Kafka, too (`LoggingController.ROOT_LOGGER`)."""

SEVERITIES: Final[Mapping[str, int]] = {
    "FATAL": 50,
    "ERROR": 40,
    "WARN": 30,
    "INFO": 20,
    "DEBUG": 10,
    "TRACE": 5,
}
"""Kafka's levels (`LogLevelConfig`) by their names, on the scale of the standard module."""


class LogLevels:
    """The levels of one process. Changed and read on its loop; ends with the process."""

    def __init__(self, level: str = "INFO") -> None:
        """`level` is that of root: one of SEVERITIES."""
        self._levels = {ROOT: level}
        """Root's level, and those that services were given."""
        self._services: set[str] = set()

    def add(self, service: str) -> None:
        """A service writes to the log from now on."""
        self._services.add(service)

    def knows(self, logger: str) -> bool:
        """Whether there is such a logger."""
        return logger == ROOT or logger in self._services

    def all(self) -> dict[str, str]:
        """The levels in effect of all loggers, by name."""
        return {name: self._level_of(name) for name in sorted({ROOT, *self._services})}

    def set(self, logger: str, level: str) -> None:
        """Gives a known logger a level: one of SEVERITIES."""
        assert self.knows(logger)
        assert level in SEVERITIES
        self._levels[logger] = level

    def unset(self, service: str) -> None:
        """Lets root's level hold for a service."""
        assert service != ROOT
        self._levels.pop(service, None)

    def writes(self, service: str, severity: int) -> bool:
        """Whether an event of that severity is written; "" is no service."""
        return severity >= SEVERITIES[self._level_of(service)]

    def _level_of(self, logger: str) -> str:
        return self._levels.get(logger, self._levels[ROOT])
