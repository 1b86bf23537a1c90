"""Names of files and directories in a log directory, as Kafka writes them (`LogFileUtils.java`).

A partition's directory holds files named by a twenty digit offset:

    access_log-0/
        00000000000000000000.log         record batches
        00000000000000000000.index       sparse offset -> position
        00000000000000000000.timeindex   sparse timestamp -> offset
        00000000000000000000.txnindex    aborted transactions, if any
        00000000000000008192.snapshot    producers as they were before offset 8192
        leader-epoch-checkpoint
        partition.metadata
        .highwater_gaps                  if it was compacted, or copied from a log that was (see `Gaps`)
"""

import base64
from typing import Final

from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, TopicId

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

SCRUB_STATE: Final = ".highwater_scrub"
"""Which segment of a log directory was looked through last (`scrubber`)."""
DAMAGE: Final = ".highwater_damage"
"""Offsets of records that a log has lost (`LostRanges.add`)."""
RECENT_PRODUCERS: Final = ".highwater_producers"
"""Producers as they were a moment ago, for a start on the same kernel (`producer_recovery`)."""
COMMITTED_PRODUCERS: Final = ".highwater_producers_committed"
"""The newest of those before it that tells of committed records only, for a truncation."""
MOVE_MARK: Final = ".highwater_moved"
"""Says that a log is a whole copy of one in another log directory (`move_mark`)."""
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
GAPS_MARKER: Final = ".highwater_gaps"
"""A file of ours alone: offsets of this log may be missing (`recovery.segment_ends.Gaps` says where)."""
MADE_ANEW: Final = ".highwater_made_anew"
"""In a new log's directory: the checkpoints may still tell of another log that had this name (`made_anew`)."""
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

DELETED_DIRECTORY_SUFFIX: Final = "-delete"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
DAMAGED_DIRECTORY_SUFFIX: Final = "-damaged"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
MOVED_DIRECTORY_SUFFIX: Final = "-moved"
_OFFSET_DIGITS: Final = 20
_TOKEN_DIGITS: Final = 32
_MAX_NAME: Final = 255


def offset_file(offset: int, suffix: str) -> str:
    """`00000000000000008192.log` for (8192, ".log")."""
    return f"{offset:020d}{suffix}"


def parse_offset_file(name: str, suffix: str) -> int | None:
    """The offset in a file's name, or None if the name is not `<twenty digits><suffix>`."""
    stem = name.removesuffix(suffix)
    if len(stem) != _OFFSET_DIGITS or len(name) != _OFFSET_DIGITS + len(suffix):
        return None
    return int(stem) if stem.isascii() and stem.isdigit() else None


def topic_id_text(topic_id: TopicId) -> str:
    """A topic id as Kafka prints UUIDs: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def parse_topic_id(text: str) -> TopicId:
    """The inverse of `topic_id_text`; ValueError if it is no UUID."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"not a topic id: {text!r}")
    return TopicId(raw)


def partition_directory(
    topic: str, partition: int, *, topic_id: TopicId, instance: InstanceId = DEFAULT_INSTANCE
) -> str:
    """`<topic>-<partition>` as in Kafka; topics of other instances go by their id."""
    stem = topic if instance == DEFAULT_INSTANCE else topic_id_text(topic_id)
    return f"{stem}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic or topic id text, partition), or None if the name is no partition's directory."""
    stem, dash, number = name.rpartition("-")
    if not dash or not stem or not (number.isascii() and number.isdigit()):
        return None
    return stem, int(number)


def deleted_directory(name: str, token: str) -> str:
    """The name under which a partition's directory waits to be removed: `<name>.<token>-delete`.

    A long topic name is cut so that the result stays a legal file name, as in Kafka.
    """
    return _with_tail(name, f".{token}{DELETED_DIRECTORY_SUFFIX}")


def stray_directory(name: str, token: str) -> str:
    """The name under which a log is kept that no topic has: `<name>.<token>-stray`, as in Kafka."""
    return _with_tail(name, f".{token}{STRAY_DIRECTORY_SUFFIX}")


def damaged_directory(name: str, token: str) -> str:
    """The name under which a damaged log is kept until another copy is in sync:
    `<name>.<token>-damaged`.
    """
    return _with_tail(name, f".{token}{DAMAGED_DIRECTORY_SUFFIX}")


def parse_damaged_directory(name: str) -> str | None:
    """The partition's directory of which a damaged log was set aside, or None. Of a very long name
    only the beginning is left.
    """
    found = _parse_tail(name, DAMAGED_DIRECTORY_SUFFIX)
    return None if found is None else found[0]


def future_directory(name: str, token: str) -> str | None:
    """The name of a copy that will take a log's place, as in Kafka: `<name>.<token>-future`; None if
    that is too long for a file name. It is never cut, since it is parsed again.
    """
    return _whole_tail(name, f".{token}{FUTURE_DIRECTORY_SUFFIX}")


def parse_future_directory(name: str) -> tuple[str, str] | None:
    """(the partition's directory, token), or None."""
    return _parse_tail(name, FUTURE_DIRECTORY_SUFFIX)


def moved_directory(name: str, token: str) -> str:
    """The name under which a log stays until the copy with the same token has taken its place:
    `<name>.<token>-moved`, which is shorter than `future_directory`.
    """
    return f"{name}.{token}{MOVED_DIRECTORY_SUFFIX}"


def parse_moved_directory(name: str) -> tuple[str, str] | None:
    """(the partition's directory, token), or None."""
    return _parse_tail(name, MOVED_DIRECTORY_SUFFIX)


def _parse_tail(name: str, suffix: str) -> tuple[str, str] | None:
    stem, dot, tail = name.rpartition(".")
    token = tail.removesuffix(suffix)
    return (stem, token) if dot and token != tail and len(token) == _TOKEN_DIGITS else None


def _whole_tail(name: str, tail: str) -> str | None:
    return name + tail if len(name) + len(tail) <= _MAX_NAME else None


def _with_tail(name: str, tail: str) -> str:
    return name[: _MAX_NAME - len(tail)] + tail
