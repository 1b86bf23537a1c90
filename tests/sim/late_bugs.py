"""Known bugs of what a replica does late: writes and flushes that end late, hand-overs on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from highwater.hop.append import AppendGroup, Failure
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.replica import Replica
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.append_answers import AppendAnswers
from highwater.partition.data_plane.known_batches import known_batches
from tests.sim.asked_hand_over import AskedHandOver
from tests.sim.disk_writes import DiskWrites, FollowerWrite, LeaderWrite
from tests.sim.log_producers import Entry
from tests.sim.node import NodeProcess


class CountsUnflushed(Replica):
    """A leader counts what flush.messages asks to be flushed first."""

    __slots__ = ()

    def appended(self, log_end_offset: int, counted_end_offset: int) -> int | None:
        return super().appended(log_end_offset, log_end_offset)


class FetchesBeforeTheFlush(Replica):
    """A follower acknowledges, by its next fetch, what flush.messages asks to be flushed first."""

    __slots__ = ()

    def may_ask(self) -> bool:
        return self.may_fetch(self.leader_epoch)


class ForgetsEndedFlushes(Replica):
    """A flush that has ended counts nothing, so that the follower never fetches again."""

    __slots__ = ()

    def _end_moved(self, event: on.LogEndMoved) -> list[effect.Effect]:
        return super()._end_moved(replace(event, counted_end_offset=self.counted_end_offset))


class LeadsBeforeLateWrites(Replica):
    """A late write is taken for one of the present epoch, which is known to begin before it."""

    __slots__ = ()

    def _written_late(self, event: on.WrittenLate) -> list[effect.Effect]:
        moved = on.LogEndMoved(
            log_end_offset=event.log_end_offset, counted_end_offset=event.counted_end_offset
        )
        return self._end_moved(moved)


class KeepsEpochsBeforeLateWrites(Replica):
    """A follower that led during a late write takes its records for those of that epoch."""

    __slots__ = ()

    def _written_late(self, event: on.WrittenLate) -> list[effect.Effect]:
        effects = super()._written_late(event)
        return effects if self.role is Role.LEADER else []


class ForgetsLateWrites(Replica):
    """A leader ignores the end of a write that an earlier role began."""

    __slots__ = ()

    def _written_late(self, event: on.WrittenLate) -> list[effect.Effect]:
        return self._too_late(event)


class AcknowledgesBeforeTheWrite(DiskWrites):
    """A follower fetches from behind what its disk has not written yet."""

    def write_later(self, entries: list[Entry], what: LeaderWrite | FollowerWrite) -> None:
        super().write_later(entries, what)
        process = self._process
        if isinstance(what, FollowerWrite):
            replica = process.replica
            question = (
                process.node,
                process.incarnation,
                replica.node_epoch,
                replica.leader_epoch,
                process.log.end + len(entries),
                replica.epochs.latest,
                replica.kept_log_start,
            )
            process.world.network.send(process.node, replica.leader, "on_fetch", question)


class CommitsBeforeTheWrite(DiskWrites):
    """A leader counts what its disk has not written yet."""

    def write_later(self, entries: list[Entry], what: LeaderWrite | FollowerWrite) -> None:
        super().write_later(entries, what)
        process = self._process
        if isinstance(what, LeaderWrite):
            end = process.log.end + len(entries)
            if process.replica.appended(end, end) is not None:
                process.high_watermark_moved()


class LeavesLateWritesUnflushed(DiskWrites):
    """No flush follows a follower's write that ends in another role, so that it never counts."""

    def after_late_write(self) -> None:
        self._process.fetch()


class AnswersLateWritesUnflushed(AppendAnswers):
    """The same for a write that began as a leader's."""

    __slots__ = ()

    def _flush_late(self) -> None:
        self._role.fetch_again()


class AnswersWhatIsBeingWritten(AppendAnswers):
    """A batch that came before, and that the disk is still writing, is taken for one in the log."""

    __slots__ = ()

    def refuse_to_store(self, group: AppendGroup, refusal: Failure) -> None:
        known = known_batches(group, self._log.producers.states, refusal)
        if known is None:
            group.fail(refusal)
            return
        end_offset = self._log.extent.end_offset
        self.appended(group, known.base_offsets, known.failures, end_offset, 0)


class KeepsQuietOfOtherFlushes(Replica):
    """Nobody hears what a leader commits with an append that has to wait for a flush."""

    __slots__ = ()

    def appended(self, log_end_offset: int, counted_end_offset: int) -> int | None:
        moved = super().appended(log_end_offset, counted_end_offset)
        return moved if counted_end_offset == log_end_offset else None


class HoldsForWhoeverWasNamed(AskedHandOver):
    """A leader waits for its successor although that one cannot lead any more."""

    def can_lead(self, successor: int) -> bool:
        return True


class NeverLeadsOn(AskedHandOver):
    """A leader that has resigned takes nothing more in its epoch, whatever becomes of the others."""

    def lead_on(self) -> None:
        self.end()


class SaysItIsReady(AskedHandOver):
    """A leader that is asked does not wait for its successor."""

    def _has_all(self, successor: int) -> bool:
        return True


def with_disk(disk: type[DiskWrites]) -> Callable[..., NodeProcess]:
    def process(*place: Any) -> NodeProcess:
        made = NodeProcess(*place)
        made.disk = disk(made)
        return made

    return process


def with_asked(asked: type[AskedHandOver]) -> Callable[..., NodeProcess]:
    def process(*place: Any) -> NodeProcess:
        made = NodeProcess(*place)
        made.asked = asked(made)
        return made

    return process


class CountsUnkeptStarts(Replica):
    """A leader answers DeleteRecords before its own disk knows where the log begins."""

    __slots__ = ()

    def _delete_records(self, event: on.DeleteRecordsAsked) -> list[effect.Effect]:
        effects = super()._delete_records(event)
        self.kept_log_start = self.log_start_offset
        return effects


class DeletesAlone(Replica):
    """A leader answers DeleteRecords although its followers still have the records."""

    __slots__ = ()

    def low_watermark(self) -> int:
        return self.kept_log_start
