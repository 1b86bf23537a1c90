"""What a simulated log knows of its producers."""

from __future__ import annotations

from highwater.partition.core.producers import ProducerStates

Entry = tuple[int, int, int, int]
"""(leader epoch, value, producer id, sequence)."""


class LogProducers:
    """Of one log, as long as it lives; here of idempotent producers in epoch 0."""

    def __init__(self) -> None:
        self.states = ProducerStates()

    def note(self, offset: int, entry: Entry) -> None:
        """The entry is in the log."""
        if entry[2] >= 0:
            self.states.record_append(entry[2], 0, entry[3], offset, 0, 0)

    def rebuild(self, base: int, entries: list[Entry]) -> None:
        """The log has these entries, from offset `base` on."""
        self.states.clear()
        for offset, entry in enumerate(entries, base):
            self.note(offset, entry)

    def files_are_lost(self) -> None:
        """Whatever is beside the log may be of another one: the disk has lost a part of the log."""
