"""Reads and keeps lineage (`core.lineage`) in a node's log directories.

Lifecycle: `begin` (before recovery) -> `recovered` -> `registered` -> `close`, with `failed` at any
time after `begin`. All but `begin` run on the owner's thread.
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
"""A runtime directory is in memory; do not wait long for one that hangs like the failed disk."""


def _new_id() -> str:
    return os.urandom(8).hex()


class NodeLineage:
    """The lineage of one incarnation of a node."""

    def __init__(
        self,
        *,
        incarnation: str,
        boot_id: str,
        new_id: Callable[[], str] = _new_id,
        volumes: Volumes | None = None,
        notes: FailureNotes | None = None,
    ) -> None:
        """`boot_id` is the kernel's, empty if unknown; `new_id` creates a directory id.
        `volumes` tells what the kernel knows of file systems, `notes` keeps failures outside of
        the directories; without them nothing is known or kept.
        """
        self._look = (volumes or UnknownVolumes()).look
        self._notes = notes or NoNotes()
        self._volumes: dict[HostedDirectory, Volume] = {}
        """State of the directories' file systems at the start."""
        self.incarnation = incarnation
        self.boot_id = boot_id
        self.evidence: tuple[str, ...] = ()
        """Incarnations whose records are all here; every registration tells them."""
        self._new_id = new_id
        self._present: Lineage = NOTHING
        self._ids: dict[HostedDirectory, str] = {}
        """Ids of the directories that were readable and writable at the start."""
        self._places: dict[HostedDirectory, str] = {}
        """The place to record for each directory; empty until its logs are recovered."""
        self._homes: dict[HostedDirectory, str] = {}
        """Where each directory is, whatever it holds."""
        self._directories: tuple[str, ...] = ()
        self._begun_with_evidence = False
        """Whether the directories' records name earlier incarnations."""
        self._loss_recorded: set[HostedDirectory] = set()
        """Directories where a loss of records was recorded."""

    def begin(self, opened: Sequence[HostedDirectory], *, unreadable: int) -> None:
        """Records in all directories that this incarnation writes now; sets `failure` where that
        fails. Nothing else may be written before.

        `unreadable` is the number of other directories.
        """
        found: dict[HostedDirectory, DirectoryRecord | None] = {}
        proved: dict[HostedDirectory, str] = {}
        """Places of directories that may still hold what a killed process wrote."""
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
                place = ""  # The directory is in its place, but may have lost writes.
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
            # Without proof the ids may be copies.
            known = record is not None and agreed is not NOTHING
            self._ids[hosted] = record.directory if record and known else self._new_id()
        self._directories = (*sorted(self._ids.values()), *missing)
        for hosted, record in found.items():
            try:
                # A power cut may undo this write. An earlier running process's record then remains
                # and proves no more than this one; only a clean record must be replaced durably.
                self._write(hosted, durable=record is None or record.lineage.clean)
                self._notes.forget(self._homes[hosted])
            except LogDirFailure as failure:
                hosted.failure = failure
                del self._ids[hosted]

    def recovered(self, hosted: HostedDirectory) -> None:
        """All logs of a directory are open and checked, so the next start on this kernel may rely
        on them. A process killed before this leaves a directory that has to be checked again.
        """
        if hosted in self._places:
            self._places[hosted] = hosted.directory.place()

    def record_loss(self, hosted: HostedDirectory) -> None:
        """A log of a directory being opened has less than earlier incarnations wrote.

        Recorded before anything is cut, because the next start could not see the loss. Called by
        the thread that opens the directory. Raises LogDirFailure.
        """
        if hosted in self._loss_recorded or not self._begun_with_evidence:
            return
        self._loss_recorded.add(hosted)
        self._present = lineage.lost(self._present, incarnation=self.incarnation)
        self.evidence = ()
        self._write(hosted, durable=False)

    def registered(self) -> None:
        """The controller has registered this incarnation; now `keep` every directory."""
        self._present = lineage.registered(self._present, incarnation=self.incarnation)
        self.evidence = self._present.incarnations

    def doubt(self) -> None:
        """A directory has failed: the node cannot be sure of its records any more."""
        self._present = lineage.failed(self._present)
        self.evidence = ()

    def failed(self, online: Sequence[HostedDirectory], broken: HostedDirectory) -> None:
        """Does what `doubt` does, and records it in the other directories and in the broken one.

        Other threads write, as a hanging disk must not stop the loop. It waits shortly for the
        note outside of all directories, because the process may be about to end.
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
        """Call it after all directories were closed, with their failures; returns new failures.

        A directory that could not be written keeps the record of a killed process or failed disk.
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
        """Writes a directory's present record. Raises LogDirFailure.

        Only a clean record must survive a power cut; `begin` replaces it durably.
        """
        self._write(hosted, durable=self._present.clean)

    def _write(self, hosted: HostedDirectory, *, durable: bool) -> None:
        if hosted in self._ids:
            hosted.directory.write_lineage(self._record_of(hosted), durable=durable)

    def took_part(self, hosted: HostedDirectory) -> bool:
        """Whether the directory was readable and writable at the start."""
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
    with contextlib.suppress(LogDirFailure):  # The directory has failed already.
        directory.write_lineage(record, durable=False)


def _nothing() -> None:
    """Nothing is left to do on the owner's thread."""
