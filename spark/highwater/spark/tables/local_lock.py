"""A lock on tables in a file system of this machine.

Delta and Iceberg commit by making a file that must not exist yet. HDFS and object stores refuse the
second one; a local file system, as Hadoop uses it, lets it replace the first if it comes from another
process at the same instant. The lock closes that gap. The kernel drops it when its holder dies.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from highwater.model.errors import UnwritableDirectoryError
from highwater.spark.tables.port import TableConflict

PREFIX: Final = "_lock."
"""Names that begin with an underscore are no data to any of the formats."""


def local_path(path: str) -> Path | None:
    """Returns the table's directory; None if it is not in a file system of this machine."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(path).absolute()


@contextmanager
def hold(path: str, purpose: str) -> Iterator[None]:
    """Holds the lock for `purpose` on the table. Raises TableConflict if another holder has it.

    Raises UnwritableDirectoryError if the table's directory cannot be made or written.

    Does nothing for tables elsewhere, whose stores refuse the second commit themselves.
    """
    directory = local_path(path)
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / f"{PREFIX}{purpose}", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise UnwritableDirectoryError(str(directory), error.strerror or str(error)) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TableConflict(
                f"another process is at work on {directory} ({purpose}); run again when it has ended"
            ) from error
        yield
    finally:
        os.close(descriptor)
