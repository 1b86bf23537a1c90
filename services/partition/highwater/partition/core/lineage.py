"""Which incarnations' records are all in a node's directories: eligibility after a crash (KIP-966, R12).

Every log directory has a small record of it: {boot id, incarnations, clean}. A killed
process leaves the page cache to the next one, as long as the kernel is the same, the directory is in
its place and its file system has been mounted all along (`Volume`). An orderly end leaves synced files
to any kernel, in any place. A power cut, a failed write, a copy put in the directory's place, another
disk, or a log that turns out to have lost records begins anew. What the node sends at registration
lets the controller see whether the incarnation that it knows is among those whose records are all
there.

Order of steps: `agree` and `begin`, and write the result to all directories before anything else
is written to them; register with the evidence; then `registered`. On a failed write `failed`, on an
orderly end `closed`, after the last sync.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

INCARNATIONS_MAX: Final = 32
"""How many starts without a registration are remembered. Older ones count as lost, which is safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a directory's record says."""

    boot_id: str
    """The kernel on which the newest incarnation wrote; empty if unknown."""
    incarnations: tuple[str, ...]
    """Oldest first."""
    clean: bool = False
    """The newest one closed all logs in order."""


NOTHING: Final = Lineage(boot_id="", incarnations=())
"""The record of an empty, foreign or damaged directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What a running kernel says of the file system that a directory is on. Empty means unknown."""

    superblock: str = ""
    """Which mounting of the file system this is, the same in every container: the kernel drops all
    that it has in memory of a file system when the last mount of it goes."""
    mount_namespace: str = ""
    mount: str = ""
    """Which mount in that namespace; a container that starts anew has new ones of the same file
    system, so it says nothing between two namespaces."""
    errors: str = ""
    """What the file system has counted; changes with every error."""
    read_only: bool = False
    """Also if it was an error that made it so."""


UNKNOWN_VOLUME: Final = Volume()


def survived(before: Volume, now: Volume) -> bool:
    """Whether the file system may hold all that was written to it when `before` was looked at.

    What is unknown on one side proves nothing, neither way.
    """
    if now.read_only or _differ(before.errors, now.errors):
        return False
    if before.superblock and now.superblock:
        return before.superblock == now.superblock
    known = before.mount_namespace and before.mount_namespace == now.mount_namespace
    return not (known and _differ(before.mount, now.mount))


def _differ(before: str, now: str) -> bool:
    return bool(before) and bool(now) and before != now


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRecord:
    """What is kept in one directory: the lineage, and which directories it belongs to."""

    directory: str
    """Its own id, by which the others know it."""
    directories: tuple[str, ...]
    """All that the node had at the time; without one of them its records are not all there."""
    lineage: Lineage
    place: str = ""
    """Where in the file system it was written, as only the running kernel knows it; empty until
    all that the directory holds was checked."""
    home: str = ""
    """The same from the incarnation's start on. Empty if unknown, also in records of versions that
    did not write it: those prove as much as a power cut leaves, unless they are clean."""
    volume: Volume = UNKNOWN_VOLUME
    """What the kernel said of its file system at the incarnation's start."""


def cache_intact(found: DirectoryRecord | None, *, boot_id: str, place: str) -> bool:
    """Whether the directory holds every write that was completed, synced or not.

    So it is while the kernel that took the writes runs on. A directory that was copied or put back
    since has another place; after a failed write nothing is sure.
    """
    if found is None or not boot_id or not place:
        return False
    same = found.lineage.boot_id == boot_id and found.place == place
    return same and bool(found.lineage.incarnations)


def agree(
    found: Sequence[DirectoryRecord | None],
    *,
    homes: Sequence[str],
    unreadable: int,
    boot_id: str,
) -> tuple[Lineage, tuple[str, ...]]:
    """(what all directories together hold, the ids of known ones that cannot be read).

    `found` are the records of the directories that can be read, None where there is none; `homes`
    says where each of these directories is now. An incarnation counts if every directory holds its records without a gap. A directory without
    a record is new if none of the known ones is missing; otherwise it may be one that was emptied.
    Directories that cannot be read (`unreadable` is their number) are no gap by themselves: their
    partitions are offline, and when they come back their records are old.
    """
    known = [record for record in found if record is not None]
    ids = {record.directory for record in known}
    missing = {directory for record in known for directory in record.directories} - ids
    emptied = bool(missing) and len(known) < len(found)
    if not known or len(ids) < len(known) or emptied or len(missing) > unreadable:
        return NOTHING, ()
    held = [
        _held(record.lineage, boot_id if home and home == record.home else "")
        for record, home in zip(found, homes, strict=True)
        if record is not None
    ]
    common = tuple(name for name in held[0] if all(name in other for other in held))
    return Lineage(boot_id=boot_id, incarnations=common, clean=True), tuple(sorted(missing))


def begin(found: Lineage, *, boot_id: str, incarnation: str) -> tuple[tuple[str, ...], Lineage]:
    """(evidence for the registration, what to write before anything else)."""
    evidence = _held(found, boot_id)
    kept = (*evidence, incarnation)[-INCARNATIONS_MAX:]
    return evidence, Lineage(boot_id=boot_id, incarnations=kept)


def registered(present: Lineage, *, incarnation: str) -> Lineage:
    """The controller knows this incarnation; nobody will ask for earlier ones."""
    return replace(present, incarnations=(incarnation,) if present.incarnations else ())


def failed(present: Lineage) -> Lineage:
    """A write failed: the page cache no longer tells what the disk will hold."""
    return replace(present, incarnations=())


def lost(present: Lineage, *, incarnation: str) -> Lineage:
    """A start found less than earlier incarnations wrote; what this one writes is not concerned."""
    return replace(present, incarnations=(incarnation,) if present.incarnations else ())


def closed(present: Lineage) -> Lineage:
    """Everything is synced and no more will be written."""
    return replace(present, clean=True)


def _held(found: Lineage, boot_id: str) -> tuple[str, ...]:
    same_kernel = bool(boot_id) and boot_id == found.boot_id
    return found.incarnations if found.clean or same_kernel else ()
