"""The end of a log: it is closed, deleted, or set aside."""

import os

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_cleaning import LogCleaning
from highwater.partition.storage.log.log_durability import LogDurability
from highwater.partition.storage.log.log_producers import LogProducers
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.names import damaged_directory, deleted_directory, stray_directory


class LogClosing:
    """Ends one log, which is not used afterwards. All methods raise LogDirFailure."""

    __slots__ = ("_cleaning", "_durability", "_place", "_producers", "_segments")

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        *,
        durability: LogDurability,
        producers: LogProducers,
        cleaning: LogCleaning,
    ) -> None:
        """All belong to the log."""
        self._place = place
        self._segments = segments
        self._durability = durability
        self._producers = producers
        self._cleaning = cleaning

    def close(self, *, clean: bool) -> None:
        """Close all files. Call `PartitionLog.close` instead, which also explains `clean`."""
        self._producers.tail.close()
        try:
            self._cleaning.stop()
            if clean:
                self._segments.active.seal()
                self._durability.flush()
                self._durability.sync_transactions()
                self._producers.write_snapshot()
        except OSError as error:
            raise LogDirFailure(self._place.directory, error) from error
        finally:
            for segment in self._segments.all:
                segment.close()

    def delete(self, token: str) -> None:
        """Rename the directory to `<name>.<token>-delete`; it is removed after the delay.

        `token` is 32 hexadecimal digits, never used before. Pinned segments stay readable.
        """
        place = self._place
        self._move(deleted_directory(os.path.basename(place.directory), token))
        place.environment.delete_later([place.directory], place.config.file_delete_delay_ms)

    def set_aside(self, token: str) -> None:
        """As `delete`, but the directory becomes `<name>.<token>-stray` and is not removed."""
        self._move(stray_directory(os.path.basename(self._place.directory), token))

    def set_damaged_aside(self, token: str) -> None:
        """As `delete`, but the directory becomes `<name>.<token>-damaged` and is not removed."""
        self._move(damaged_directory(os.path.basename(self._place.directory), token))

    def _move(self, name: str) -> None:
        place = self._place
        target = os.path.join(os.path.dirname(place.directory), name)
        self._cleaning.stop()
        self._producers.tail.close()
        place.life.ended = True
        try:
            place.filesystem.rename(place.directory, target)
        except OSError as error:
            raise LogDirFailure(place.directory, error) from error
        place.directory = target
        for segment in self._segments.all:
            segment.moved(target)
            segment.close()
