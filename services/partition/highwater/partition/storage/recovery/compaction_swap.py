"""The steps that replace old segments by a cleaned one, safe against a power cut.

New files are new inodes under Kafka's names; nothing is written in place:

    <base>.log.cleaned    being written; removed after a crash
    <base>.log.swap       whole and on disk; a crash no longer undoes the swap
    <base>.log            the segment
    <base>.log.deleted    replaced; current readers may finish; removed after a crash

The rename of the `.log` file to `.swap` decides: it follows the renames of the indexes, which are
on disk by then. Before it the old segments are the log, after it the new one is, and `recovery`
completes the swap. A new file's last header is that of the last batch that it replaces (see
`compaction`), so the file itself shows which segments those are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.partition.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
)

_INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
_FILES: Final = (*_INDEXES, LOG_SUFFIX)
"""The log file comes last: when it has a name, the indexes have theirs. Of a segment without aborted
transactions there is no transaction index."""


@dataclass(frozen=True, slots=True)
class Rename:
    """Renames within the partition's directory, if there is such a file; replaces a file of the new
    name.
    """

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Unlink:
    """Removes a file, which may be gone already."""

    name: str


@dataclass(frozen=True, slots=True)
class SyncFile:
    """The file's bytes, if there is such a file, must be on disk before the next step."""

    name: str


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    """All present names must be on disk before the next step."""


Step = Rename | Unlink | SyncFile | SyncDirectory


def swap(bases: Sequence[int]) -> list[Step]:
    """The steps after the `.cleaned` files of `bases[0]` were written, in order.

    The new segment replaces the adjacent segments with these base offsets. The caller removes
    the `.deleted` files once nobody reads them.
    """
    base = bases[0]
    names = [offset_file(base, suffix) for suffix in _FILES]
    steps: list[Step] = [SyncFile(name + CLEANED_SUFFIX) for name in names]
    steps += [Rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX) for name in names[:-1]]
    # Otherwise a crash could keep the name of the log and lose those of its indexes.
    steps.append(SyncDirectory())
    steps.append(Rename(names[-1] + CLEANED_SUFFIX, names[-1] + SWAP_SUFFIX))
    steps.append(SyncDirectory())
    for old in bases:
        for suffix in _FILES:
            name = offset_file(old, suffix)
            steps.append(Rename(name, name + DELETED_SUFFIX))
    steps.append(SyncDirectory())
    steps += [Rename(name + SWAP_SUFFIX, name) for name in names]
    steps.append(SyncDirectory())
    return steps


def recovery(names: Iterable[str], end_of: Callable[[int], int]) -> list[Step]:
    """The steps with which a start completes or undoes an interrupted swap, in order.

    `names` are the directory's files; `end_of(base)` reads the offset after the last batch of
    `<base>.log.swap`. A recovery that is interrupted can be repeated.

    The transaction index of a swapped segment is removed: nobody can tell an old one from the new
    one, and one that has too much hides records. The caller rebuilds it (`swapped_bases`).
    """
    present = sorted(names)
    swapped = swapped_bases(present)
    steps: list[Step] = []
    for name in present:
        base = _swapped_index(name)
        if name.endswith((CLEANED_SUFFIX, DELETED_SUFFIX)) or (
            base is not None and base not in swapped
        ):
            steps.append(Unlink(name))
    for new in swapped:
        end = end_of(new)
        for name in present:
            base = _segment_file(name)
            # If the new segment's indexes are already renamed, they are removed, too, and rebuilt.
            if base is not None and new <= base < end:
                steps.append(Unlink(name))
        steps.append(SyncDirectory())
        for suffix in _FILES:
            name = offset_file(new, suffix)
            if name + SWAP_SUFFIX not in present:
                continue
            if suffix == TRANSACTION_INDEX_SUFFIX:
                steps.append(Unlink(name + SWAP_SUFFIX))
            else:
                steps.append(Rename(name + SWAP_SUFFIX, name))
    if steps:
        steps.append(SyncDirectory())
    return steps


def swapped_bases(names: Iterable[str]) -> list[int]:
    """The base offsets of segments whose swap a start completes, ascending."""
    found = (parse_offset_file(name, LOG_SUFFIX + SWAP_SUFFIX) for name in names)
    return sorted(base for base in found if base is not None)


def _swapped_index(name: str) -> int | None:
    for suffix in _INDEXES:
        base = parse_offset_file(name, suffix + SWAP_SUFFIX)
        if base is not None:
            return base
    return None


def _segment_file(name: str) -> int | None:
    for suffix in _FILES:
        base = parse_offset_file(name, suffix)
        if base is not None:
            return base
    return None
