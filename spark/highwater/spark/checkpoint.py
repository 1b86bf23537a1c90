"""Whose a stream's checkpoint is: a directory with Spark's own files, and a mark of ours beside them.

    DIR/owner/mark.json   the job, the cluster and the topic that the checkpoint belongs to
    DIR/stream/           what Spark keeps: offsets, commits, state

Spark itself would read offsets of another topic or cluster as if they were this one's. The mark also
names the writer under which the job commits to its tables, a name that no other checkpoint has: a
job that begins anew with an empty checkpoint counts its batches from 0 again, and its commits are
not to be taken for repetitions.
"""

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from highwater.model.errors import UsageError
from highwater.spark.topic_admin import TopicIdentity

VERSION: Final = 1
OWNER: Final = "owner"
MARK: Final = "mark.json"
STREAM: Final = "stream"


class CheckpointRefused(UsageError):
    """The checkpoint belongs to another job, cluster or topic, or is none of ours."""

    reason = "CHECKPOINT_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMark:
    """Example: {"version": 1, "job": "watch", "cluster_id": "c", "topic": "t", "topic_id": "i", "writer": "watch-5f"}."""

    version: int
    job: str
    cluster_id: str
    topic: str
    topic_id: str
    writer: str


class Files(Protocol):
    """The part of `tables.hadoop_files.HadoopFiles` that is used here."""

    def names(self, directory: str = "") -> list[str]:
        """Names in a directory; none if it is not there."""

    def read_text(self, name: str) -> str:
        """A file's text."""

    def write_text(self, name: str, text: str) -> None:
        """Writes a new file."""

    def move_new(self, directory: str, target: str) -> bool:
        """Renames a directory at once; whether the target's name was free."""


def claim(files: Files, place: str, job: str, identity: TopicIdentity) -> CheckpointMark:
    """Returns the mark of the checkpoint at `place`, made if it is new. Raises CheckpointRefused."""
    if MARK not in files.names(OWNER):
        if files.names(STREAM):
            raise CheckpointRefused(f"{place} is not a checkpoint of highwater-spark")
        mark = CheckpointMark(
            version=VERSION,
            job=job,
            **asdict(identity),
            writer=f"{job}-{uuid.uuid4().hex}",
        )
        # In one step, so that a start that is killed leaves a whole mark or none.
        draft = f"draft-{mark.writer}"
        files.write_text(f"{draft}/{MARK}", json.dumps(asdict(mark)))
        files.move_new(draft, OWNER)
    found = _read(files.read_text(f"{OWNER}/{MARK}"), place)
    _compare(found, job, identity, place)
    return found


def _read(text: str, place: str) -> CheckpointMark:
    try:
        mark = CheckpointMark(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise CheckpointRefused(f"{place} has a mark that cannot be read") from error
    if mark.version != VERSION:
        raise CheckpointRefused(f"{place} has version {mark.version}, not {VERSION}")
    return mark


def _compare(mark: CheckpointMark, job: str, identity: TopicIdentity, place: str) -> None:
    for what, theirs, ours in (
        ("job", mark.job, job),
        ("cluster", mark.cluster_id, identity.cluster_id),
        ("topic", mark.topic, identity.topic),
    ):
        if theirs != ours:
            raise CheckpointRefused(f"{place} is the checkpoint of {what} {theirs}, not of {ours}")
    if _id_of(mark.topic_id) != _id_of(identity.topic_id):
        raise CheckpointRefused(
            f"{place} is the checkpoint of an earlier topic {mark.topic}, which was deleted and made anew"
        )


def _id_of(text: str) -> str:
    """An id as Java's client writes it: earlier marks have the letters of another one's base 64."""
    return text.translate(str.maketrans("+/", "-_"))
