"""What is made of files, made again when they have changed: secrets and certificates."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from highwater.model.errors import UsageError

LOOK_S: Final = 1.0
"""The files are looked at when their value is asked for, but not more often."""

Value = TypeVar("Value")

OnFailure = Callable[[UsageError], None]
"""Gets what is wrong with changed files, once for each change; from any thread."""

Stamp = tuple[int, int, int] | None
"""What tells a file that was replaced or rewritten; None if it is not there."""


def file_stamps(paths: Iterable[Path]) -> tuple[Stamp, ...]:
    """One for each file, as it is now."""
    stamps: list[Stamp] = []
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_mtime_ns, found.st_ino, found.st_size))
    return tuple(stamps)


class ReloadedFiles(Generic[Value]):
    """The value of some files. Lives as long as whoever asks; used from any thread."""

    def __init__(
        self,
        paths: Sequence[Path],
        make: Callable[[], Value],
        *,
        on_failure: OnFailure,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`make` reads the files. Raises the UsageError of `make`, for files as they are now."""
        self._paths = tuple(paths)
        self._make = make
        self._on_failure = on_failure
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._look_at_s = monotonic_s() + LOOK_S
        # Before the files are read: a change in between shows at the next look.
        self._stamps = file_stamps(self._paths)
        self._value = make()
        self.generation = 0
        """Grows with each change of the value."""

    def get(self) -> Value:
        """The value of the files as they were a second ago, or when they last could be used."""
        if self._monotonic_s() >= self._look_at_s:
            self._refresh()
        return self._value

    def _refresh(self) -> None:
        with self._lock:
            self._look_at_s = self._monotonic_s() + LOOK_S
            stamps = file_stamps(self._paths)
            if stamps == self._stamps:
                return
            self._stamps = stamps
            try:
                self._value = self._make()
            except UsageError as error:
                self._on_failure(error)  # Perhaps a certificate whose key is still to come.
            else:
                self.generation += 1
