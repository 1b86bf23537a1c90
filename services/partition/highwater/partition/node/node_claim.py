"""Chooses a node id for a process, when several equal processes share one data root.

    <data root>/node-<id>/          the log directory of node <id>, with its meta.properties
    <data root>/node-<id>.lock      locked by the process that is this node, for as long as it lives

A process takes the lowest node id whose directory exists and which no other process holds, else the
lowest id without a directory. So the next process to start continues a killed node with its data,
and an additional process is a new node. Locks are flock locks: the kernel releases them when the
process ends, and they work between containers that mount one volume of one machine.
"""

import errno
import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from highwater.model.errors import UnwritableDirectoryError, UsageError

NODES_MAX: Final = 1000
"""Ids that are tried; clusters have tens of nodes."""

_DIRECTORY: Final = re.compile(r"node-([1-9][0-9]{0,8})")
_TAKEN: Final = (errno.EWOULDBLOCK, errno.EACCES)


def candidates(names: Iterable[str], wanted: int = -1) -> Iterator[int]:
    """Node ids in the order in which they are tried, given the names in the data root.

    `wanted` is the only one if it is not negative. The first new node is 1.
    """
    if wanted >= 0:
        yield wanted
        return
    present = {int(match[1]) for name in names if (match := _DIRECTORY.fullmatch(name))}
    yield from sorted(present)
    for new in range(1, NODES_MAX + 1):
        if new not in present:
            yield new


class NodeClaim:
    """A node of a data root, from `take` until `release` or the end of the process."""

    def __init__(self, root: Path, node_id: int, lock: int) -> None:
        self.node_id = node_id
        self.log_dir = root / f"node-{node_id}"
        self._lock: int | None = lock

    @classmethod
    def take(cls, root: Path, wanted: int = -1) -> "NodeClaim":
        """Claims a node and creates its directory.

        Raises UnwritableDirectoryError, or UsageError if `wanted`, or every node, is taken.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
            names = [entry.name for entry in root.iterdir()]
            for node_id in candidates(names, wanted):
                lock = _try_lock(root / f"node-{node_id}.lock")
                if lock is not None:
                    claim = cls(root, node_id, lock)
                    claim.log_dir.mkdir(exist_ok=True)
                    return claim
        except OSError as error:
            raise UnwritableDirectoryError(str(root), error.strerror or str(error)) from None
        which = f"node {wanted}" if wanted >= 0 else "every node"
        raise UsageError(f"{which} of data root {root} is in use by another process")

    def release(self) -> None:
        """Lets another process take this node."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None if another process holds it. Raises OSError."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno in _TAKEN:
            return None
        raise
    return lock
