"""The SQLite driver: one file, for the embedded mode and for local clusters.

Keys live in memory and in the file; the file is only read at start. A transaction is answered
after SQLite has synced it (WAL, synchronous=FULL). Watches reach back to the start of the process.
No other process can hold a lease, so leases end with the process: their keys are removed at
start.

Format, version 1:
    meta(name TEXT PRIMARY KEY, value INTEGER)   'version' = 1, 'revision' = the last revision
    entry(key TEXT PRIMARY KEY, value BLOB, create_revision INTEGER, mod_revision INTEGER,
          lease INTEGER)                         lease is 0 for a key without one
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from highwater.controller.store.engine import Plan
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import (
    Compare,
    Entry,
    Operation,
    OutcomeUnknownError,
    StoreBrokenError,
    StoreUnavailableError,
    TxnResult,
)
from highwater.model.errors import UnwritableDirectoryError, UsageError

_T = TypeVar("_T")

FORMAT_VERSION: Final = 1
_LOCK_TIMEOUT_S: Final = 1.0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entry (
    key TEXT PRIMARY KEY, value BLOB NOT NULL,
    create_revision INTEGER NOT NULL, mod_revision INTEGER NOT NULL, lease INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('version', 1), ('revision', 1);
"""


class SqliteStore(MemoryStore):
    """A store in one file, locked for this process from `start` to `close`."""

    def __init__(self, path: Path) -> None:
        super().__init__(exclusive=True)
        self._path = path
        self._open = False
        self._broken = ""
        """Why memory and file may differ from now on; only a restart helps."""
        # SQLite blocks while it syncs, so it gets its own thread.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-store")
        self._connection: sqlite3.Connection | None = None

    async def start(self) -> None:
        """Opens, locks and reads the file. Raises UsageError."""
        revision, entries = await self._in_thread(self._load)
        self._engine.load(revision, entries)
        self._open = True

    async def close(self) -> None:
        """Ends watches, waits for the running transaction and closes the file."""
        async with self._writing:
            self._open = False
        # The lock is fair: all earlier waiters have found the store closed by now.
        async with self._writing:
            await super().close()
            if self._connection is not None:
                connection, self._connection = self._connection, None
                await self._in_thread(connection.close)
            self._thread.shutdown(wait=False)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """See the port. Runs to its end even if the caller is cancelled: never half done."""
        self._ensure_open()
        task = self._tasks.start(super().txn(compares, operations), name="sqlite-txn")
        return await asyncio.shield(task)

    async def _persist(self, plan: Plan) -> None:
        try:
            await self._in_thread(self._write, plan)
        except OutcomeUnknownError as error:
            self._broken = str(error)
            self._open = False
            raise

    def _ensure_open(self) -> None:
        if self._broken:
            raise StoreBrokenError(f"{self._broken}; it has to be opened anew, by a restart")
        super()._ensure_open()

    async def _in_thread(self, call: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _load(self) -> tuple[int, list[Entry]]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self._path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.OperationalError) as error:
            raise UnwritableDirectoryError(str(self._path.parent), str(error)) from None
        try:
            return self._read(connection)
        except sqlite3.Error as error:
            connection.close()
            if "locked" in str(error):
                raise UsageError(f"{self._path} is in use by another controller") from None
            raise UsageError(f"cannot open metadata store {self._path}: {error}") from None

    def _read(self, connection: sqlite3.Connection) -> tuple[int, list[Entry]]:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # Takes the exclusive lock now, so that a second controller fails to start.
        connection.executescript(f"BEGIN EXCLUSIVE; {_SCHEMA} COMMIT;")
        meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        if meta["version"] != FORMAT_VERSION:
            connection.close()
            raise UsageError(f"{self._path} has format {meta['version']}, not {FORMAT_VERSION}")
        connection.execute("DELETE FROM entry WHERE lease != 0")
        rows = connection.execute(
            "SELECT key, value, create_revision, mod_revision FROM entry"
        ).fetchall()
        self._connection = connection
        entries = [
            Entry(key=key, value=value, create_revision=created, mod_revision=changed)
            for key, value, created, changed in rows
        ]
        return meta["revision"], entries

    def _write(self, plan: Plan) -> None:
        connection = self._connection
        if connection is None:
            raise StoreUnavailableError("the store is closed")
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM entry WHERE key = ?", [(k,) for k in plan.deleted])
            connection.executemany(
                "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)",
                [
                    (entry.key, entry.value, entry.create_revision, entry.mod_revision, lease)
                    for entry, lease in plan.puts
                ],
            )
            connection.execute(
                "UPDATE meta SET value = ? WHERE name = 'revision'", (plan.revision,)
            )
        except sqlite3.Error as error:
            _roll_back(connection)
            raise StoreUnavailableError(f"cannot write {self._path}: {error}") from error
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # On a full volume SQLite has rolled back. A later transaction overwrites what this one
            # wrote, so this one leaves no trace.
            if connection.in_transaction or _is_full(error):
                _roll_back(connection)
                raise StoreUnavailableError(f"cannot write {self._path}: {error}") from error
            raise OutcomeUnknownError(f"commit to {self._path} failed: {error}") from error


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
