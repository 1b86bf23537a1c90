"""The SQLite driver across restarts and disk errors."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.controller.store.port import (
    CompactedError,
    CreateRevisionIs,
    Delete,
    DeletePrefix,
    OutcomeUnknownError,
    Put,
    StoreBrokenError,
    StoreUnavailableError,
)
from highwater.controller.store.sqlite import SqliteStore
from highwater.model.errors import UnwritableDirectoryError, UsageError
from highwater.runtime.tasks import TaskOwner


async def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.start()
    return store


async def test_everything_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "metadata.sqlite"
    store = await opened(path)
    await store.txn(
        (), [Put(key="a", value=b"1"), Put(key="p/1", value=b""), Put(key="gone", value=b"")]
    )
    await store.txn((), [Put(key="a", value=b"2"), Delete(key="gone")])
    await store.txn((), [DeletePrefix(prefix="p/")])
    before = await store.range("")
    await store.close()
    store = await opened(path)
    assert await store.range("") == before
    with pytest.raises(CompactedError):
        await anext(store.watch("", before.revision))
    result = await store.txn((CreateRevisionIs(key="b", revision=0),), [Put(key="b", value=b"")])
    assert result.revision == before.revision + 1
    await store.close()


def copy_files(source: Path, target: Path) -> None:
    for file in source.glob("metadata.sqlite*"):
        (target / file.name).write_bytes(file.read_bytes())


async def test_an_unclosed_store_has_every_answered_transaction(tmp_path: Path) -> None:
    """Not closed, as after kill -9: the write-ahead log has every answered transaction."""
    path = tmp_path / "metadata.sqlite"
    store = await opened(path)
    for n in range(20):
        await store.txn((), [Put(key=f"k{n:02d}", value=b"x")])
    image = tmp_path / "image"
    image.mkdir()
    copy_files(tmp_path, image)
    await store.close()
    copy = await opened(image / "metadata.sqlite")
    assert len((await copy.range("k")).entries) == 20
    await copy.close()


async def test_leases_end_with_the_process(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    store = await opened(path)
    lease = await store.grant(60_000)
    await store.txn((), [Put(key="held", value=b"", lease=lease), Put(key="kept", value=b"")])
    await store.close()
    store = await opened(path)
    assert [entry.key for entry in (await store.range("")).entries] == ["kept"]
    await store.close()


async def test_a_second_controller_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path / "metadata.sqlite")
    second = SqliteStore(tmp_path / "metadata.sqlite")
    with pytest.raises(UsageError, match="in use"):
        await second.start()
    await second.close()
    await store.close()


async def test_foreign_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("this is not a database" * 100)
    with pytest.raises(UsageError, match="cannot open"):
        await opened(text)
    newer = tmp_path / "newer.sqlite"
    await (await opened(newer)).close()
    connection = sqlite3.connect(newer)
    connection.execute("UPDATE meta SET value = 2 WHERE name = 'version'")
    connection.commit()
    connection.close()
    with pytest.raises(UsageError, match="format 2"):
        await opened(newer)
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableDirectoryError):
        await opened(tmp_path / "file" / "metadata.sqlite")


class FailingConnection:
    """A connection that fails the next statement of a kind, once."""

    def __init__(
        self,
        real: sqlite3.Connection,
        statement: str,
        *,
        in_transaction: bool,
        code: int = sqlite3.SQLITE_IOERR,
    ) -> None:
        self._real = real
        self._code = code
        self._statement = statement
        self._in_transaction = in_transaction

    def execute(self, sql: str, *args: Any) -> Any:
        if sql.startswith(self._statement):
            self._statement = "never again"
            if not self._in_transaction:
                self._real.execute("ROLLBACK")
            error = sqlite3.OperationalError("disk trouble")
            error.sqlite_errorcode = self._code
            raise error
        return self._real.execute(sql, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize("statement", ["BEGIN", "UPDATE", "COMMIT"])
async def test_a_failed_write_had_no_effect(tmp_path: Path, statement: str) -> None:
    store = await opened(tmp_path / "metadata.sqlite")
    before = await store.range("")
    assert store._connection is not None
    store._connection = FailingConnection(  # type: ignore[assignment]
        store._connection, statement, in_transaction=True
    )
    with pytest.raises(StoreUnavailableError):
        await store.txn((), [Put(key="a", value=b"")])
    assert await store.range("") == before
    assert (await store.txn((), [Put(key="a", value=b"")])).revision == before.revision + 1
    await store.close()


async def test_a_full_volume_does_not_close_the_store(tmp_path: Path) -> None:
    """SQLite writes at the commit, and rolls back if it cannot."""
    store = await opened(tmp_path / "metadata.sqlite")
    before = await store.range("")
    assert store._connection is not None
    store._connection = FailingConnection(  # type: ignore[assignment]
        store._connection, "COMMIT", in_transaction=False, code=sqlite3.SQLITE_FULL
    )
    with pytest.raises(StoreUnavailableError):
        await store.txn((), [Put(key="a", value=b"1")])
    assert await store.range("") == before
    assert (await store.txn((), [Put(key="a", value=b"2")])).revision == before.revision + 1
    in_memory = await store.range("")
    await store.close()
    store = await opened(tmp_path / "metadata.sqlite")
    assert await store.range("") == in_memory
    await store.close()


async def test_a_lost_commit_closes_the_store(tmp_path: Path) -> None:
    store = await opened(tmp_path / "metadata.sqlite")
    assert store._connection is not None
    store._connection = FailingConnection(  # type: ignore[assignment]
        store._connection, "COMMIT", in_transaction=False
    )
    with pytest.raises(OutcomeUnknownError):
        await store.txn((), [Put(key="a", value=b"")])
    with pytest.raises(StoreBrokenError, match="disk trouble"):
        await store.range("")
    await store.close()


async def test_a_lost_commit_ends_the_controller(tmp_path: Path) -> None:
    """Nothing would lead without showing it, so the process ends and its owner starts it again."""
    store = SqliteStore(tmp_path / "metadata.sqlite")
    service = ControllerService(
        ControllerConfig(controller_id="c", store="sqlite", data_dir=tmp_path),
        store=store,
        serve_grpc=False,
    )
    await service.start()
    active = await service.wait_active(5)
    assert store._connection is not None
    store._connection = FailingConnection(  # type: ignore[assignment]
        store._connection, "COMMIT", in_transaction=False
    )
    with pytest.raises(OutcomeUnknownError):
        await active.allocate_producer_ids()
    with pytest.raises(StoreBrokenError):
        await asyncio.wait_for(asyncio.shield(service.failed), 5)
    await service.stop()


async def test_a_cancelled_caller_leaves_memory_and_file_alike(tmp_path: Path) -> None:
    store = await opened(tmp_path / "metadata.sqlite")
    tasks = TaskOwner(lambda _name, _error: None)
    for n in range(10):
        caller = tasks.start(store.txn((), [Put(key=f"k{n}", value=b"")]), name="caller")
        await asyncio.sleep(0)
        caller.cancel()
    await store.txn((), [Put(key="last", value=b"")])
    in_memory = await store.range("")
    await store.close()
    store = await opened(tmp_path / "metadata.sqlite")
    assert await store.range("") == in_memory
    await store.close()
