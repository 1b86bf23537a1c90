"""The text files in which Kafka keeps offsets and epochs (`CheckpointFile.java`).

A checkpoint is a version line, a count line and one entry a line:

    recovery-point-offset-checkpoint,            leader-epoch-checkpoint
    replication-offset-checkpoint,
    log-start-offset-checkpoint
        0                                            0
        2                                            2
        access_log 0 8192                            0 0
        access_log 1 8077                            3 8192

`partition.metadata` is two lines, `version: 0` and `topic_id: <22 characters of base64url>`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.storage.errors import CorruptCheckpointError
from highwater.partition.storage.filesystem import FileSystem, read_file, replace_file
from highwater.partition.storage.names import TEMPORARY_SUFFIX, parse_topic_id, topic_id_text

VERSION: Final = 0
FILE_BYTES_MAX: Final = 64 << 20
"""More than a million partitions' lines; a longer file is no checkpoint of ours."""


def read_offsets(filesystem: FileSystem, path: str) -> dict[tuple[str, int], int]:
    """{(topic, partition): offset}; empty if there is no file. Raises CorruptCheckpointError."""
    offsets: dict[tuple[str, int], int] = {}
    for fields in _read_entries(filesystem, path, fields=3):
        offset = _number(path, fields[2])
        offsets[fields[0], _number(path, fields[1])] = offset
    return offsets


def write_offsets(
    filesystem: FileSystem, path: str, offsets: Mapping[tuple[str, int], int], *, durable: bool
) -> None:
    """Replaces an offset checkpoint. `durable` makes it survive a power cut."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    _write_entries(filesystem, path, lines, durable=durable)


def read_epochs(filesystem: FileSystem, path: str) -> list[tuple[int, int]] | None:
    """[(leader epoch, start offset)]; None if there is no file. Raises CorruptCheckpointError."""
    if not _exists(filesystem, path):
        return None
    return [
        (_number(path, epoch), _number(path, start))
        for epoch, start in _read_entries(filesystem, path, fields=2)
    ]


def write_epochs(
    filesystem: FileSystem, path: str, entries: Iterable[tuple[int, int]], *, durable: bool
) -> None:
    """Replaces a leader epoch checkpoint."""
    lines = [f"{epoch} {start}" for epoch, start in entries]
    _write_entries(filesystem, path, lines, durable=durable)


def read_ranges(filesystem: FileSystem, path: str) -> list[tuple[int, int]]:
    """[(first offset, end offset)] of damaged records; empty if there is no file.

    Raises CorruptCheckpointError.
    """
    return [
        (_number(path, first), _number(path, end))
        for first, end in _read_entries(filesystem, path, fields=2)
    ]


def write_ranges(
    filesystem: FileSystem, path: str, ranges: Iterable[tuple[int, int]], *, durable: bool
) -> None:
    """Replaces a file of ranges."""
    lines = [f"{first} {end}" for first, end in ranges]
    _write_entries(filesystem, path, lines, durable=durable)


def read_topic_id(filesystem: FileSystem, path: str) -> TopicId | None:
    """The topic id in a `partition.metadata` file; None if there is no file, or an empty one.

    Empty is what a power cut leaves of a file that was not synced.
    """
    if not _exists(filesystem, path):
        return None
    lines = _read_text(filesystem, path).splitlines()
    if not lines:
        return None
    if len(lines) < 2 or lines[0] != f"version: {VERSION}" or not lines[1].startswith("topic_id: "):
        raise CorruptCheckpointError(f"{path}: not a partition metadata file")
    try:
        return parse_topic_id(lines[1].removeprefix("topic_id: ").strip())
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error


def write_topic_id(filesystem: FileSystem, path: str, topic_id: TopicId) -> None:
    """Writes a `partition.metadata` file."""
    text = f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}"
    replace_file(filesystem, path, text.encode(), temporary=path + TEMPORARY_SUFFIX, durable=False)


def _read_entries(filesystem: FileSystem, path: str, *, fields: int) -> list[list[str]]:
    if not _exists(filesystem, path):
        return []
    lines = _read_text(filesystem, path).splitlines()
    if not lines:
        return []  # Kafka creates empty files before it has anything to say.
    if len(lines) < 2 or _number(path, lines[0]) != VERSION:
        raise CorruptCheckpointError(f"{path}: not a checkpoint of version {VERSION}")
    entries = [line.split(" ") for line in lines[2:]]
    if len(entries) != _number(path, lines[1]):
        raise CorruptCheckpointError(f"{path}: {len(entries)} entries, announced {lines[1]}")
    if any(len(entry) != fields for entry in entries):
        raise CorruptCheckpointError(f"{path}: an entry has not {fields} fields")
    return entries


def _write_entries(filesystem: FileSystem, path: str, lines: list[str], *, durable: bool) -> None:
    text = "\n".join([str(VERSION), str(len(lines)), *lines]) + "\n"
    replace_file(
        filesystem, path, text.encode(), temporary=path + TEMPORARY_SUFFIX, durable=durable
    )


def _read_text(filesystem: FileSystem, path: str) -> str:
    try:
        return read_file(filesystem, path, limit=FILE_BYTES_MAX).decode("utf-8")
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error


def _exists(filesystem: FileSystem, path: str) -> bool:
    try:
        filesystem.stat(path)
    except FileNotFoundError:
        return False
    return True


def _number(path: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise CorruptCheckpointError(f"{path}: {text!r} is not a number")
    return int(text)
