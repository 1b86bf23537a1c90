"""Where each leader epoch of a log begins (KIP-101, KIP-279; Kafka's `LeaderEpochFileCache`).

Invariant R7: epochs and start offsets both ascend strictly. An epoch ends where the next one
begins, and the newest ends at the log end offset.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, Protocol

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class LeaderEpochView(Protocol):
    """The leader epochs of a log for those who only ask; a log's owner is `storage`'s `LogEpochs`."""

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        ...

    def entries(self) -> list[tuple[int, int]]:
        """A copy of [(epoch, start offset)], oldest first."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """See `LeaderEpochCache.end_offset_for`."""
        ...

    def epoch_for(self, offset: int) -> int:
        """See `LeaderEpochCache.epoch_for`."""
        ...


class LeaderEpochCache:
    """[(epoch, start offset)], oldest first. `latest` is the newest epoch, -1 if there is none."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """Takes entries as a checkpoint holds them; ValueError if they break the invariant."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        for epoch, start in entries:
            if epoch < 0 or start < 0 or epoch <= self.latest:
                raise ValueError(f"leader epoch {epoch} at {start} follows {self.latest}")
            if self._starts and start <= self._starts[-1]:
                raise ValueError(
                    f"leader epoch {epoch} starts at {start}, not after the one before"
                )
            self._epochs.append(epoch)
            self._starts.append(start)
            self.latest = epoch

    def __len__(self) -> int:
        return len(self._epochs)

    def entries(self) -> list[tuple[int, int]]:
        """A copy, for the checkpoint."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Notes that `epoch` begins at `start_offset`; False if that says nothing new.

        A later epoch that begins at or before the start of earlier ones replaces them: they held
        no records. An epoch that is not later is ignored, as a leader never goes back.
        """
        assert epoch >= 0
        assert start_offset >= 0
        if epoch <= self.latest:
            return False
        while self._starts and self._starts[-1] >= start_offset:
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch <= `epoch`, its end offset); (-1, -1) if nothing can be said.

        As Kafka: the newest epoch ends at the log end offset, an epoch later than the newest is
        unknown, one before the first is answered with itself and the first start offset.
        """
        if epoch < 0 or not self._epochs or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if following == 0:
            return epoch, self._starts[0]
        return self._epochs[following - 1], self._starts[following]

    def epoch_for(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, -1 if that is not known."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops the epochs that begin at or after `end_offset`; False if there were none."""
        before = len(self._epochs)
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH
        return len(self._epochs) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drops the epochs that end at or before `start_offset`; False if nothing changed.

        The epoch in which `start_offset` lies then begins there.
        """
        containing = bisect_right(self._starts, start_offset) - 1
        if containing < 0 or (self._starts[containing] == start_offset and containing == 0):
            return False
        del self._epochs[:containing]
        del self._starts[:containing]
        self._starts[0] = start_offset
        return True

    def clear(self) -> None:
        """Forgets everything: the log starts afresh."""
        self._epochs.clear()
        self._starts.clear()
        self.latest = NO_EPOCH
