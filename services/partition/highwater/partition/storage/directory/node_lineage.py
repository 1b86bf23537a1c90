"""The node's side of `core.lineage`: what its log directories prove, and what is kept in them.

Lifecycle: `begin` (before recovery) -> `recovered` -> `registered` -> `close`, with `failed` at any time after
`begin`. On the owner's thread, but for `begin`.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from highwater.partition.core import lineage
from highwater.partition.core.lineage import (
    NOTHING,
    UNKNOWN_VOLUME,
    DirectoryRecord,
    Lineage,
    Volume,
)
from highwater.partition.storage.directory.failure_notes import FailureNotes, NoNotes
from highwater.partition.storage.directory.hosted_directory import HostedDirectory
from highwater.partition.storage.directory.kernel_volume import UnknownVolumes, Volumes
from highwater.partition.storage.directory.log_directory import LogDirectory
from highwater.partition.storage.errors import LogDirFailure

NOTE_TIMEOUT_S: Final = 0.2
"""A runtime directory is in memory; one that hangs like the disk that failed is not waited for."""


def _new_id() -> str:
    return os.urandom(8).hex()


class NodeLineage:
    """One incarnation of a node."""

    def __init__(
        self,
        *,
        incarnation: str,
        boot_id: str,
        new_id: Callable[[], str] = _new_id,
        volumes: Volumes | None = None,
        notes: FailureNotes | None = None,
    ) -> None:
        """`boot_id` is the kernel's, empty if unknown; `new_id` names a directory for ever.
        `volumes` and `notes` say what the kernel knows of file systems, and remember failures
        outside of the directories; without them nothing is known, or remembered.
        """
        self._look = (volumes or UnknownVolumes()).look
        self._notes = notes or NoNotes()
        self._volumes: dict[HostedDirectory, Volume] = {}
        """Of the directories' file systems at the start."""
        self.incarnation = incarnation
        self.boot_id = boot_id
        self.evidence: tuple[str, ...] = ()
        """Incarnations whose records are all here; what every registration has to say."""
        self._new_id = new_id
        self._present: Lineage = NOTHING
        self._ids: dict[HostedDirectory, str] = {}
        """Of the directories that take part: they could be read and written at the start."""
        self._places: dict[HostedDirectory, str] = {}
        """What may be said of where a directory is; nothing until its logs are recovered."""
        self._homes: dict[HostedDirectory, str] = {}
        """Where each directory is, whatever it holds."""
        self._directories: tuple[str, ...] = ()
        self._begun_with_evidence = False
        """Whether the records in the directories name earlier incarnations."""
        self._told: set[HostedDirectory] = set()
        """Where it was noted that these have lost records."""

    def begin(self, opened: Sequence[HostedDirectory], *, unreadable: int) -> None:
        """Notes in all directories that this incarnation writes now; `failure` is set where it
        cannot be. Nothing else may be written before.

        `unreadable` is how many other directories there are.
        """
        found: dict[HostedDirectory, DirectoryRecord | None] = {}
        proved: dict[HostedDirectory, str] = {}
        """Where directories are that may hold what a killed process wrote to them."""
        for hosted in opened:
            try:
                found[hosted] = hosted.directory.read_lineage()
            except LogDirFailure as failure:
                hosted.failure = failure
        for hosted, record in found.items():
            place = hosted.directory.place()
            self._homes[hosted] = place
            self._volumes[hosted] = self._look(hosted.directory.path)
            before = UNKNOWN_VOLUME if record is None else record.volume
            if self._notes.known(place) or not lineage.survived(before, self._volumes[hosted]):
                place = ""  # It is where it was, and may not hold what it did.
            proved[hosted] = place
            hosted.cache_intact = lineage.cache_intact(record, boot_id=self.boot_id, place=place)
            self._places[hosted] = place if hosted.cache_intact else ""
        agreed, missing = lineage.agree(
            list(found.values()),
            homes=[proved[hosted] for hosted in found],
            unreadable=unreadable + len(opened) - len(found),
            boot_id=self.boot_id,
        )
        self.evidence, self._present = lineage.begin(
            agreed, boot_id=self.boot_id, incarnation=self.incarnation
        )
        self._begun_with_evidence = bool(self.evidence)
        for hosted, record in found.items():
            # Where nothing is proved, the ids may be copies.
            known = record is not None and agreed is not NOTHING
            self._ids[hosted] = record.directory if record and known else self._new_id()
        self._directories = (*sorted(self._ids.values()), *missing)
        for hosted, record in found.items():
            try:
                # A record of a running process that is lost leaves one of another such behind,
                # which proves no more after a power cut than this one.
                self._write(hosted, durable=record is None or record.lineage.clean)
                self._notes.forget(self._homes[hosted])
            except LogDirFailure as failure:
                hosted.failure = failure
                del self._ids[hosted]

    def recovered(self, hosted: HostedDirectory) -> None:
        """All logs of a directory are open and checked: the next start on this kernel may rely on
        that. Whoever is killed before leaves a directory to be checked as before.
        """
        if hosted in self._places:
            self._places[hosted] = hosted.directory.place()

    def lost(self, hosted: HostedDirectory) -> None:
        """A log of a directory that is being opened holds less than earlier incarnations wrote.

        Written down there before anything is cut off, because the next start could not see it any
        more. By the thread that opens the directory. Raises LogDirFailure.
        """
        if hosted in self._told or not self._begun_with_evidence:
            return
        self._told.add(hosted)
        self._present = lineage.lost(self._present, incarnation=self.incarnation)
        self.evidence = ()
        self._write(hosted, durable=False)

    def registered(self) -> None:
        """The controller knows this incarnation; `keep` it everywhere."""
        self._present = lineage.registered(self._present, incarnation=self.incarnation)
        self.evidence = self._present.incarnations

    def doubt(self) -> None:
        """A directory that took part has failed: nothing is sure of what it holds."""
        self._present = lineage.failed(self._present)
        self.evidence = ()

    def failed(self, online: Sequence[HostedDirectory], broken: HostedDirectory) -> None:
        """As `doubt`, and has it noted in the others; in the broken one, too, if that works.

        By other threads: one disk that hangs must not stop the loop. For the note outside of all
        directories it waits a little, as the process may be about to end.
        """
        self.doubt()
        if broken in self._ids:
            self._note_failure(broken)
            record = self._record_of(broken)
            threading.Thread(
                target=_try_to_write, args=(broken.directory, record), daemon=True
            ).start()
        for hosted in online:
            if hosted in self._ids:
                write = partial(
                    hosted.directory.write_lineage, self._record_of(hosted), durable=False
                )
                hosted.run_later(write, _nothing)

    def _note_failure(self, broken: HostedDirectory) -> None:
        thread = threading.Thread(
            target=self._notes.remember, args=(self._homes[broken],), daemon=True
        )
        thread.start()
        thread.join(NOTE_TIMEOUT_S)

    def close(
        self, dirs: Sequence[HostedDirectory], failures: Sequence[LogDirFailure | None]
    ) -> list[LogDirFailure]:
        """After all directories were closed, with the failure of each; what fails now.

        Who could not write everything leaves the record of a killed process, or of a failed disk.
        """
        took_part = [hosted for hosted in dirs if hosted in self._ids]
        if all(hosted.closed_clean for hosted in took_part):
            self._present = lineage.closed(self._present)
        else:
            broken = [hosted for hosted in took_part if failures[hosted.index] is not None]
            for hosted in broken:
                self.doubt()
                self._note_failure(hosted)
        later = []
        for hosted in took_part:
            if failures[hosted.index] is None:
                try:
                    self.keep(hosted)
                except LogDirFailure as failure:
                    later.append(failure)
        return later

    def keep(self, hosted: HostedDirectory) -> None:
        """Writes what a directory has to keep now. Raises LogDirFailure.

        Only a clean end has to survive a power cut; `begin` cares for what it replaces.
        """
        self._write(hosted, durable=self._present.clean)

    def _write(self, hosted: HostedDirectory, *, durable: bool) -> None:
        if hosted in self._ids:
            hosted.directory.write_lineage(self._record_of(hosted), durable=durable)

    def took_part(self, hosted: HostedDirectory) -> bool:
        """Whether the directory could be read and written at the start."""
        return hosted in self._ids

    def _record_of(self, hosted: HostedDirectory) -> DirectoryRecord:
        return DirectoryRecord(
            directory=self._ids[hosted],
            directories=self._directories,
            lineage=self._present,
            place=self._places[hosted],
            home=self._homes[hosted],
            volume=self._volumes[hosted],
        )


def _try_to_write(directory: LogDirectory, record: DirectoryRecord) -> None:
    with contextlib.suppress(LogDirFailure):  # As may be expected of it.
        directory.write_lineage(record, durable=False)


def _nothing() -> None:
    """There is nothing to do on the owner's thread."""
