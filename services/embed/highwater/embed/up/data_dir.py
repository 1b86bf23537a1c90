"""The data directory of `highwater up`: its files, and a lock, so that only one process uses it.

.lock                 locked by the running broker or supervisor, with its pid in it
controller.address    host:port of the controller, for tools
inner.json            the files by which tools prove to it who they are: paths, nothing secret
inner.secret          what the services of the cluster show one another; for this user only
pids.json             process name -> pid, of a supervised cluster
metrics.json          process name -> host:port of its /metrics
controller/           metadata store (SQLite)
node-<n>/             log directory of node n
"""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from highwater.model.errors import UnwritableDirectoryError, UsageError
from highwater.runtime.shared_secret import make_secret

CONTROLLER_ADDRESS_FILE: Final = "controller.address"
PIDS_FILE: Final = "pids.json"
INNER_FILE: Final = "inner.json"
SECRET_FILE: Final = "inner.secret"  # noqa: S105 - a file's name.
METRICS_FILE: Final = "metrics.json"
LOCK_FILE: Final = ".lock"


class DataDir:
    """A data directory; `acquire` before anything is written, `release` at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @property
    def controller(self) -> Path:
        """The controller's directory."""
        return self.path / "controller"

    def node(self, number: int) -> Path:
        """A node's log directory; the first node is 1, in every mode."""
        return self.path / f"node-{number}"

    @property
    def secret(self) -> Path:
        """The file with the cluster's secret, see `make_secret`."""
        return self.path / SECRET_FILE

    def acquire(self) -> None:
        """Makes and locks it. Raises UnwritableDirectoryError, or UsageError if it is in use."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Append mode keeps the pid of the process that holds the lock.
            self._lock = (self.path / LOCK_FILE).open("a+")
        except OSError as error:
            raise UnwritableDirectoryError(str(self.path), error.strerror or str(error)) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            holder = self._lock.read(32).strip() or "unknown"
            self._lock.close()
            self._lock = None
            raise UsageError(
                f"data directory {self.path} is in use by another broker (pid {holder})"
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()

    def release(self) -> None:
        """Removes this process's files and its lock; harmless if `acquire` failed."""
        if self._lock is None:
            return
        for name in (CONTROLLER_ADDRESS_FILE, INNER_FILE, PIDS_FILE, METRICS_FILE):
            (self.path / name).unlink(missing_ok=True)
        self._lock.truncate(0)
        self._lock.close()
        self._lock = None

    def write_controller_address(self, address: str) -> None:
        """Writes host:port for tools."""
        self._replace(CONTROLLER_ADDRESS_FILE, address)

    def read_controller_address(self) -> str:
        """host:port. Raises UsageError if nothing runs on this directory."""
        if address := self.find_controller_address():
            return address
        raise UsageError(f"no broker runs on data directory {self.path}")

    def find_controller_address(self) -> str:
        """host:port; empty if nothing runs on this directory."""
        try:
            return (self.path / CONTROLLER_ADDRESS_FILE).read_text().strip()
        except OSError:
            return ""

    def make_secret(self) -> None:
        """Makes a secret unless there is one; it stays at the end. Raises UnwritableDirectoryError."""
        make_secret(self.secret)

    def write_inner(self, files: Mapping[str, str]) -> None:
        """Writes which files the controller asks for, by the names of `runtime.inner_settings`."""
        self._replace(INNER_FILE, json.dumps(dict(files), indent=1) + "\n")

    def read_inner(self) -> dict[str, str]:
        """What `write_inner` has written; empty if nothing has. Raises UsageError."""
        path = self.path / INNER_FILE
        try:
            files: dict[str, str] = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        return files

    def write_pids(self, pids: Mapping[str, int]) -> None:
        """Replaces the list of processes; a reader finds the old or the new one."""
        self._replace(PIDS_FILE, json.dumps(dict(pids), indent=1) + "\n")

    def write_metrics(self, addresses: Mapping[str, str]) -> None:
        """Writes host:port of every process that serves /metrics, by its name, for scrapers."""
        self._replace(METRICS_FILE, json.dumps(dict(addresses), indent=1) + "\n")

    def _replace(self, name: str, text: str) -> None:
        new = self.path / f".{name}.new"
        new.write_text(text)
        new.replace(self.path / name)
