"""How many files and memory maps the logs of a directory keep open."""

import resource
from dataclasses import dataclass
from typing import Final, Self

FILES_MIN: Final = 64
MAPS_MIN: Final = 32
MAPS_MAX: Final = 32_000
"""Half of what Linux allows a process (vm.max_map_count is 65 530). One map too many is ENOMEM,
which takes the directory offline."""
RESERVED_DESCRIPTORS: Final = 256
"""Kept free for sockets and everything else that a node opens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleLimits:
    """How many segment files and index maps may be open at a time."""

    files: int
    maps: int

    @classmethod
    def of_process(cls) -> Self:
        """Half of the process's descriptors for segments, an eighth for maps (each has one)."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        available = max(min(soft, 1 << 20) - RESERVED_DESCRIPTORS, 0)
        return cls(
            files=max(available // 2, FILES_MIN), maps=min(max(available // 8, MAPS_MIN), MAPS_MAX)
        )

    def split(self, directories: int) -> Self:
        """One directory's share."""
        return type(self)(
            files=max(self.files // directories, FILES_MIN),
            maps=max(self.maps // directories, MAPS_MIN),
        )
