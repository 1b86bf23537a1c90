"""How long a copy of a topic took, and how much processor time: from samples while a tool copied it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

POLL_S = 0.25


class CopyFailed(RuntimeError):
    """The copy did not come to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """At `time_s` so many records of the copy were there, and the tool had used `cpu_s`."""

    time_s: float
    copied: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """From before the first record of the copy to its last one; the tool's start is not in it."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def records_per_s(self) -> float:
        """The rate of the copy."""
        return self.records / self.seconds


def copying(samples: Sequence[Sample], records: int) -> Copying:
    """From the last sample without a record of the copy to the first one with all. Raises CopyFailed."""
    before = [each for each in samples if each.copied == 0]
    done = next((each for each in samples if each.copied >= records), None)
    if not before or done is None:
        most = max((each.copied for each in samples), default=0)
        raise CopyFailed(f"{most} of {records} records copied, {len(before)} samples before them")
    first = before[-1]
    return Copying(
        records=records,
        seconds=done.time_s - first.time_s,
        # Processes that have ended are not counted any more.
        cpu_s=max(each.cpu_s for each in samples if each.time_s <= done.time_s) - first.cpu_s,
    )


def watch(
    copied: Callable[[], int],
    cpu_s: Callable[[], float],
    records: int,
    *,
    timeout_s: float,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> list[Sample]:
    """Samples until all records are there. Raises CopyFailed after `timeout_s`."""
    started = clock()
    samples: list[Sample] = []
    while not samples or samples[-1].copied < records:
        if samples:
            pause(POLL_S)
        if clock() > started + timeout_s:
            raise CopyFailed(f"not within {timeout_s:.0f} s")
        samples.append(Sample(time_s=clock(), copied=copied(), cpu_s=cpu_s()))
    return samples
