"""Makes the parts of a log, and connects them.

Each part knows only parts that are made before it; the first one has just the log's place. Parts
that depend on a roll, a truncation, the log start offset or the place (`log_events`) are listed
here, in the order in which they are notified.
"""

from highwater.partition.storage.log.late_writer import LateWriter
from highwater.partition.storage.log.log_cleaning import LogCleaning
from highwater.partition.storage.log.log_closing import LogClosing
from highwater.partition.storage.log.log_deletion import LogDeletion
from highwater.partition.storage.log.log_durability import LogDurability
from highwater.partition.storage.log.log_epochs import LogEpochs
from highwater.partition.storage.log.log_producers import LogProducers
from highwater.partition.storage.log.log_reader import LogReader
from highwater.partition.storage.log.log_relocation import LogRelocation
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.log_transactions import LogTransactions
from highwater.partition.storage.log.log_truncation import LogTruncation
from highwater.partition.storage.log.log_writer import LogWriter
from highwater.partition.storage.log.lost_ranges import LostRanges
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.log.segment_lookup import SegmentLookup
from highwater.partition.storage.log.segment_removal import SegmentRemoval
from highwater.partition.storage.log.segment_roll import SegmentRoll
from highwater.partition.storage.log.timestamp_search import TimestampSearch
from highwater.partition.storage.recovery.loader import LoadedLog
from highwater.partition.storage.segment.segment import SegmentFactory


class LogParts:
    """The parts of one log, made of what recovery found. `PartitionLog` takes them over."""

    def __init__(
        self, place: LogPlace, loaded: LoadedLog, *, factory: SegmentFactory, first_dirty: int
    ) -> None:
        """`first_dirty` comes from the cleaner's checkpoint; 0 if it has none."""
        files_created = loaded.files_created
        self.place = place
        self.segments = segments = LogSegments(
            loaded.segments,
            start_offset=loaded.log_start_offset,
            end_offset=loaded.log_end_offset,
            gaps=loaded.gaps,
        )
        self.lost = lost = LostRanges(place, loaded.lost)
        self.epochs = epochs = LogEpochs(
            place, segments, loaded.epochs, unsynced=files_created and len(loaded.epochs) > 0
        )
        lookup = SegmentLookup(place, segments)
        removal = SegmentRemoval(place, segments)
        self.durability = durability = LogDurability(
            place,
            segments,
            epochs,
            recovery_point=loaded.recovery_point,
            files_created=files_created,
        )
        self.producers = producers = LogProducers(
            place, segments, loaded.producers, files_created=files_created
        )
        self.reader = reader = LogReader(place, segments, lookup, lost)
        self.search = search = TimestampSearch(place, segments, lookup, lost)
        self.cleaning = cleaning = LogCleaning(
            place, segments, lookup, durability=durability, removal=removal,
            first_dirty=first_dirty,
        )  # fmt: skip
        self.roll = roll = SegmentRoll(
            place, segments, lookup, lost=lost, factory=factory, listeners=(durability, producers)
        )
        self.writer = writer = LogWriter(
            place, segments, lookup, roll=roll, epochs=epochs, producers=producers
        )
        self.late_writer = late_writer = LateWriter(
            place, segments, lookup, roll=roll, epochs=epochs, producers=producers, writer=writer
        )
        self.transactions = LogTransactions(
            place, segments, writer, transactions=producers.states.transactions
        )
        self.deletion = LogDeletion(
            place, segments, lookup, removal=removal, cleaning=cleaning, listeners=(epochs,)
        )
        self.truncation = LogTruncation(
            place, segments, lookup, epochs=epochs, durability=durability, producers=producers,
            roll=roll, removal=removal, cleaning=cleaning,
            listeners=(lost, cleaning, durability, epochs, producers),
        )  # fmt: skip
        self.relocation = LogRelocation(
            place, segments, late_writer=late_writer, cleaning=cleaning, epochs=epochs,
            producers=producers, lost=lost,
            listeners=(reader, search, writer, roll, durability, producers),
        )  # fmt: skip
        self.closing = LogClosing(
            place, segments, durability=durability, producers=producers, cleaning=cleaning
        )
