"""Keeps what was used of late, up to a number: the measured rates of clients that have quotas."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Used(Protocol):
    """What knows when it was last used, in monotonic ms."""

    used_ms: int

    def owes(self, now_ms: int, /) -> bool:
        """True if it must not be dropped for having rested."""
        ...


_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V", bound=Used)


class Recent(Generic[_K, _V]):
    """A table whose entries are made when asked for, and dropped after `idle_ms` or for newer ones.

    An entry that has rested for all windows and owes nothing says what a new one says, so nothing is lost with
    it. One that owes stays for as long again. With
    more clients at a time than `entries_max`, those that were quiet the longest begin anew.
    """

    __slots__ = ("_entries", "_entries_max", "_idle_ms", "_make")

    def __init__(self, make: Callable[[], _V], *, idle_ms: int, entries_max: int) -> None:
        self._make = make
        self._idle_ms = idle_ms
        self._entries_max = entries_max
        self._entries: OrderedDict[_K, _V] = OrderedDict()
        """The one that was used last is the last one."""

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def get(self, key: _K, now_ms: int) -> _V:
        """The entry, which counts as used now."""
        entries = self._entries
        entry = entries.get(key)
        if entry is None:
            entry = entries[key] = self._make()
        else:
            entries.move_to_end(key)
        entry.used_ms = now_ms
        while len(entries) > self._entries_max or self._is_idle(now_ms):
            oldest, last_used = next(iter(entries.items()))
            if len(entries) <= self._entries_max and last_used.owes(now_ms):
                last_used.used_ms = now_ms
                entries.move_to_end(oldest)
            else:
                del entries[oldest]
        return entry

    def _is_idle(self, now_ms: int) -> bool:
        """True if the oldest entry is; never the one that was just used."""
        return next(iter(self._entries.values())).used_ms < now_ms - self._idle_ms
