"""Logs and counts elections that may have lost records.

Kafka has `UncleanLeaderElectionsPerSec` and a line in the controller's log for each.
"""

from collections.abc import Sequence
from typing import Final

from highwater.controller.core.outcome import UncleanElection
from highwater.runtime.logging import Logger

LINES_MAX: Final = 100
"""Lines per decision; a node with 10 000 partitions should not hold up the loop by its log."""


class UncleanElections:
    """The unclean elections of one term."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self.total = 0

    def committed(self, elections: Sequence[UncleanElection]) -> None:
        """Logs and counts elections that are in the metadata store."""
        self.total += len(elections)
        for election in elections[:LINES_MAX]:
            self._log.warning(
                "unclean_election",
                topic=election.topic,
                partition=election.partition,
                leader=int(election.leader),
                leader_epoch=int(election.leader_epoch),
            )
        if len(elections) > LINES_MAX:
            self._log.warning("unclean_elections_not_listed", count=len(elections) - LINES_MAX)
