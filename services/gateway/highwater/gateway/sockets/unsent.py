"""What is left of parts that a thread was given, once it says how many of their bytes it has taken."""

from collections.abc import Iterable
from typing import TypeVar

from highwater.hop.fetch import BUFFERS, FileRange

Part = TypeVar("Part", bytes | FileRange, bytes | memoryview | FileRange)


def without_first(parts: Iterable[Part], count: int) -> tuple[list[Part], int]:
    """The parts without their first `count` bytes, and how many of those were in buffers.

    Buffers are sliced: of bytes that is a copy, of a memoryview none. Ranges of files are cut in place, and
    released if nothing of them is left.
    """
    rest: list[Part] = []
    of_buffers = 0
    for part in parts:
        if isinstance(part, BUFFERS):
            cut = min(count, len(part))
            of_buffers += cut
            if cut < len(part):
                rest.append(part[cut:])
        else:
            cut = min(count, part.length)
            part.position += cut
            part.length -= cut
            if part.length:
                rest.append(part)
            else:
                part.release()
        count -= cut
    return rest, of_buffers
