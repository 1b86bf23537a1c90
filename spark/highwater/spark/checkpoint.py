"""Whose a stream's checkpoint is: a directory with Spark's own files, and a mark of ours beside them.

    DIR/owner/mark.json          the job, the cluster and the topic that the checkpoint belongs to
    DIR/settings/settings.json   options of the job that what Spark keeps was made with
    DIR/starts/starts.json       where queries begin that have to begin at the same offsets
    DIR/stream/                  what Spark keeps: offsets, commits, state

Spark itself would read offsets of another topic or cluster as if they were this one's. The mark also
names the writer under which the job commits to its tables, a name that no other checkpoint has: a
job that begins anew with an empty checkpoint counts its batches from 0 again, and its commits are
not to be taken for repetitions.

Nor does Spark compare how long the windows are that its state is of: the state's columns are the same. So
settings that must not change are beside the mark. Checkpoints of before have none, and keep those of their
next start.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from highwater.model.errors import UsageError
from highwater.spark.topic_admin import TopicIdentity

VERSION: Final = 1
OWNER: Final = "owner"
MARK: Final = "mark.json"
SETTINGS: Final = "settings"
STARTS: Final = "starts"
STREAM: Final = "stream"


class CheckpointRefused(UsageError):
    """The checkpoint belongs to another job, cluster or topic, or to other settings, or is none of ours."""

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


def claim(
    files: Files,
    place: str,
    job: str,
    identity: TopicIdentity,
    settings: Mapping[str, str] | None = None,
) -> CheckpointMark:
    """Returns the mark of the checkpoint at `place`, made if it is new. Raises CheckpointRefused.

    `settings` are options by their names on the command line; they must be those of the first start.
    """
    if MARK not in files.names(OWNER):
        if files.names(STREAM):
            raise CheckpointRefused(f"{place} is not a checkpoint of highwater-spark")
        mark = CheckpointMark(
            version=VERSION,
            job=job,
            **asdict(identity),
            writer=f"{job}-{uuid.uuid4().hex}",
        )
        _write(files, OWNER, MARK, asdict(mark))
    found = _read(files.read_text(f"{OWNER}/{MARK}"), place)
    _compare(found, job, identity, place)
    if settings:
        _compare_settings(_kept(files, place, SETTINGS, lambda: dict(settings)), settings, place)
    return found


def starts(
    files: Files, place: str, partitions: int, resolve: Callable[[], Mapping[int, int]]
) -> dict[int, int]:
    """Returns the offset of each partition where queries begin, as `resolve` gave them at the first start.

    Partitions that were added since begin at 0. Raises CheckpointRefused, and what `resolve` raises.
    """

    def first() -> dict[str, int]:
        return {str(number): offset for number, offset in resolve().items()}

    kept = _kept(files, place, STARTS, first)
    return {number: int(kept.get(str(number), 0)) for number in range(partitions)}


def _kept(
    files: Files, place: str, name: str, make: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns what is kept under the name since it was first made."""
    file = f"{name}.json"
    if file not in files.names(name):
        _write(files, name, file, make())
    try:
        return dict(json.loads(files.read_text(f"{name}/{file}")))
    except (ValueError, TypeError) as error:
        raise CheckpointRefused(f"{place} has {name} that cannot be read") from error


def _write(files: Files, directory: str, name: str, document: Mapping[str, Any]) -> None:
    """Writes in one step, so that a start that is killed leaves the whole file or none."""
    draft = f"draft-{uuid.uuid4().hex}"
    files.write_text(f"{draft}/{name}", json.dumps(document))
    files.move_new(draft, directory)


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


def _compare_settings(kept: Mapping[str, str], ours: Mapping[str, str], place: str) -> None:
    for name, value in ours.items():
        theirs = kept.get(name, value)
        if theirs != value:
            raise CheckpointRefused(
                f"{place} is of a job with {name} '{theirs}', not '{value}', and what is under way was counted "
                f"with that: give {name} '{theirs}', or begin anew with an empty checkpoint, and new tables and "
                "topics"
            )


def _id_of(text: str) -> str:
    """An id as Java's client writes it: earlier marks have the letters of another one's base 64."""
    return text.translate(str.maketrans("+/", "-_"))
