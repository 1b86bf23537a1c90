"""What is written beside the rows of a commit: whose it is, and the writer's note."""

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Final

from highwater.spark.tables.port import Committed

MARK: Final = "highwater.commit"
"""The name under which formats with named properties keep marks; the writer's name follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """One attempt to commit; `attempt` tells it from another one of the same version."""

    writer: str
    version: int
    note: str
    attempt: str

    @property
    def committed(self) -> Committed:
        """The part that the writer gave."""
        return Committed(version=self.version, note=self.note)


def new_mark(writer: str, version: int, note: str) -> CommitMark:
    """Returns a mark with an attempt of its own. Raises ValueError for a negative version."""
    if version < 0:
        raise ValueError(f"versions count from 0 up: {version}")
    return CommitMark(writer=writer, version=version, note=note, attempt=uuid.uuid4().hex)


def to_json(mark: CommitMark) -> str:
    """Returns the mark as one line."""
    return json.dumps({MARK: asdict(mark)})


def from_json(text: str | None) -> CommitMark | None:
    """Returns the mark that `to_json` wrote; None for text that others put in its place."""
    try:
        fields = json.loads(text or "null")
        return CommitMark(**fields[MARK])
    except (ValueError, TypeError, KeyError):
        return None
