"""Searches closed segments for bit rot, slowly and in endless rounds (R13, F23).

Each log directory is read in rounds, a piece at a time on a thread, at the configured rate. The
directory keeps the place of the last segment, so that a round goes on after a restart. Runs on the
loop; findings go to `on_damage`.

    .highwater_scrub    {"version": 1, "log": "<directory>", "segment": <base offset>}
"""

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from highwater.partition.storage.directory.hosted_directory import HostedDirectory, HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import read_file, replace_file
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import SCRUB_STATE, TEMPORARY_SUFFIX
from highwater.partition.storage.scrubbing.scrub import Piece, SegmentFile, check_piece
from highwater.partition.storage.scrubbing.segment_repair import closed_segment
from highwater.partition.storage.segment.segment import Segment

VERSION: Final = 1
STATE_BYTES_MAX: Final = 4096
FIRST_ROUND_S: Final = 60.0
"""How long after the start the first round begins at the latest, whatever else runs."""

Place = tuple[str, int]
"""A log's directory and a segment's base offset."""
BEFORE_ALL: Final[Place] = ("", -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Records that a log has lost: offsets from `first` up to, not including, `end`."""

    first: int
    end: int
    file: str
    position: int
    what: str


class LogScrubber:
    """See the module. `checked_bytes` and `damages` are for metrics."""

    def __init__(
        self,
        manager: LogManager,
        *,
        bytes_per_s: int,
        pause_s: float,
        on_damage: Callable[[PartitionLog, Damage], None],
    ) -> None:
        """Reads at most `bytes_per_s` per directory; pauses `pause_s` between rounds."""
        self._manager = manager
        self._bytes_per_s = bytes_per_s
        self._pause_s = pause_s
        self._on_damage = on_damage
        self.checked_bytes = 0
        self.damages = 0
        self.rounds = 0

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for hosted in self._manager.dirs:
                group.create_task(self._directory(hosted))

    async def _directory(self, hosted: HostedDirectory) -> None:
        place = await asyncio.to_thread(_read_place, hosted)
        await asyncio.sleep(min(self._pause_s, FIRST_ROUND_S))
        while hosted.failure is None:
            await self.round(hosted, place)
            place = BEFORE_ALL
            await asyncio.sleep(self._pause_s)

    async def round(self, hosted: HostedDirectory, after: Place = BEFORE_ALL) -> None:
        """One round over a directory's closed segments, from the one after `after` on."""
        entries = [e for e in self._manager.entries() if e.directory is hosted]
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name < after[0]:
                continue
            for base in [segment.base_offset for segment in entry.log.extent.all[:-1]]:
                if (entry.name, base) <= after:
                    continue
                if hosted.failure is not None or not self._manager.holds(entry):
                    break
                if _is_known(entry.log, base):
                    continue  # It is being repaired, or no replica has its records.
                await self._segment(entry, base)
                self._keep_place(hosted, (entry.name, base))
            await asyncio.sleep(0)
        self._keep_place(hosted, BEFORE_ALL)
        self.rounds += 1

    async def _segment(self, entry: HostedLog, base: int) -> None:
        """Checks one segment, if it is still there and closed."""
        found = closed_segment(entry.log, base)
        if found is None:
            return
        segment, file = found
        truncations = entry.log.life.truncations
        position, expected = 0, base
        while position < file.size:
            piece = await self._piece(entry, file, position, expected)
            if piece is None or piece.gone or closed_segment(entry.log, base) != found:
                return
            if piece.damage:
                # Check again: it may have been truncated and written again during the read.
                again = await self._piece(entry, file, piece.position, piece.next_offset)
                same = (
                    closed_segment(entry.log, base) == found
                    and entry.log.life.truncations == truncations
                )
                if again is not None and again.damage and same and self._manager.holds(entry):
                    self._found(entry.log, segment, again)
                return
            if piece.position == position:
                return  # Nothing was read: the segment became shorter.
            position, expected = piece.position, piece.next_offset

    async def _piece(
        self, entry: HostedLog, file: SegmentFile, position: int, expected: int
    ) -> Piece | None:
        """Checks one piece, then pauses as long as its bytes may take; None if the disk fails."""
        hosted = entry.directory
        try:
            piece = await asyncio.to_thread(
                check_piece, hosted.filesystem, file, position, expected
            )
        except LogDirFailure as failure:
            if hosted.failure is None and self._manager.holds(entry):
                self._manager.fail_dir(hosted.index, failure)
            return None
        self.checked_bytes += piece.nbytes
        await asyncio.sleep(piece.nbytes / self._bytes_per_s)
        return piece

    def _found(self, log: PartitionLog, segment: Segment, piece: Piece) -> None:
        self.damages += 1
        self._on_damage(
            log,
            Damage(
                first=piece.next_offset,
                end=piece.damage_end,
                file=segment.path,
                position=piece.position,
                what=piece.damage,
            ),
        )

    def _keep_place(self, hosted: HostedDirectory, place: Place) -> None:
        if hosted.failure is None:
            hosted.run_later(partial(_write_place, hosted, place), _nothing)


def _is_known(log: PartitionLog, base: int) -> bool:
    """Whether records of a segment are known to be damaged."""
    found = closed_segment(log, base)
    return found is not None and any(
        first < found[1].next_base_offset and end > base for first, end in log.lost.ranges
    )


def _read_place(hosted: HostedDirectory) -> Place:
    """Where the last round was; a missing or damaged file begins a new round."""
    path = os.path.join(hosted.directory.path, SCRUB_STATE)
    try:
        values = json.loads(read_file(hosted.filesystem, path, limit=STATE_BYTES_MAX))
        if values["version"] != VERSION:
            return BEFORE_ALL
        return str(values["log"]), int(values["segment"])
    except (OSError, ValueError, TypeError, KeyError):
        return BEFORE_ALL


def _write_place(hosted: HostedDirectory, place: Place) -> None:
    path = os.path.join(hosted.directory.path, SCRUB_STATE)
    text = json.dumps({"version": VERSION, "log": place[0], "segment": place[1]})
    replace_file(
        hosted.filesystem, path, text.encode(), temporary=path + TEMPORARY_SUFFIX, durable=False
    )


def _nothing() -> None:
    """Nothing is left to do on the owner's thread."""
