"""MirrorMaker 2 between two clusters, both ways, in one process of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.frameworks import MIRROR_MAKER, framework_command
from tests.support.process import ManagedProcess

ROUND_S = 1
"""Between two rounds of everything that it repeats."""

_COMPLAINT = re.compile(r"\] (WARN|ERROR) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two clusters."""

    alias: str
    bootstrap: str


class MirrorMaker:
    """Copies topics, their configs and the offsets of groups, from each side to the other.

    A topic of another side gets that side's alias and a dot before its name.
    """

    def __init__(self, one: Side, other: Side, directory: Path) -> None:
        properties = directory / "mirror-maker.properties"
        values = {"clusters": f"{one.alias},{other.alias}", **_SETTINGS}
        for side in (one, other):
            values[f"{side.alias}.bootstrap.servers"] = side.bootstrap
        for source, target in ((one, other), (other, one)):
            values[f"{source.alias}->{target.alias}.enabled"] = "true"
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        self.process = ManagedProcess(
            "MirrorMaker 2",
            framework_command(MIRROR_MAKER, str(properties)),
            log_path=directory / "mirror-maker.log",
        )

    def complaints(self) -> list[str]:
        """All warnings and errors of its log so far."""
        text = self.process.log_path.read_text(errors="replace")
        return [line for line in text.splitlines() if _COMPLAINT.search(line)]


_SETTINGS = {
    "topics": "mirrored-.*",
    "groups": "mirrored-.*",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": str(ROUND_S),
    "refresh.groups.interval.seconds": str(ROUND_S),
    "sync.topic.configs.interval.seconds": str(ROUND_S),
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": str(ROUND_S),
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": str(ROUND_S),
    "emit.checkpoints.interval.seconds": str(ROUND_S),
    "emit.heartbeats.interval.seconds": str(ROUND_S),
    # So that the offset of every record can be translated, not only those of a few.
    "offset.lag.max": "0",
    "plugin.discovery": "service_load",
}
