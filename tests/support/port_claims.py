"""Claims on ports between test processes of one machine, which all choose free ports at random.

A port that is free when it is chosen may be chosen again before somebody listens there: by another
process, or by this one for the next part of the same cluster. So each process holds locks on the ports
that it has chosen last, and does not choose those again. Kernels drop them with the process.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import deque
from pathlib import Path
from typing import Final

SLOT_PORTS: Final = 8
"""Ports that are claimed together."""
CLAIMS_MAX: Final = 64
"""Slots that a process holds; older ones have listeners by now, or never will."""


class PortClaims:
    """Slots of ports that this process has claimed, in a directory that all processes share."""

    def __init__(self, directory: Path | None = None, claims_max: int = CLAIMS_MAX) -> None:
        shared = Path(tempfile.gettempdir()) / f"highwater-test-ports-{os.getuid()}"
        self._directory = directory or shared
        self._held: deque[tuple[int, int]] = deque()
        """(slot, descriptor of its locked file), oldest first."""
        self._claims_max = claims_max

    def claim(self, ports: range) -> bool:
        """False if a process, perhaps this one, has claimed one of the ports lately."""
        slots = range(ports[0] // SLOT_PORTS, ports[-1] // SLOT_PORTS + 1)
        mine = {slot for slot, _ in self._held}
        taken: list[tuple[int, int]] = []
        for slot in slots:
            descriptor = None if slot in mine else self._lock(slot)
            if descriptor is None:
                for _, other in taken:
                    os.close(other)
                return False
            taken.append((slot, descriptor))
        self._held.extend(taken)
        while len(self._held) > self._claims_max:
            os.close(self._held.popleft()[1])
        return True

    def _lock(self, slot: int) -> int | None:
        self._directory.mkdir(exist_ok=True)
        path = self._directory / str(slot)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def close(self) -> None:
        """Releases all."""
        while self._held:
            os.close(self._held.popleft()[1])


PORT_CLAIMS: Final = PortClaims()
"""Those of this process."""
