"""`run` makes its passes; test_log_manager covers what they do."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.partition.storage.directory.log_maintenance import (
    LogMaintenance,
    MaintenanceIntervals,
)
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.runtime.logging import silent_logger
from tests.support.log_batches import ManualClock

PASSES = ("retention", "checkpoints", "high_watermarks", "flushes", "removals", "producers")


async def test_every_pass_is_made_at_its_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    manager = LogManager(
        [tmp_path / "a"],
        clock=ManualClock(),
        post=loop.call_soon_threadsafe,
        on_dir_failure=lambda *_: None,
    )
    manager.open()
    manager.start()
    intervals = MaintenanceIntervals(
        retention_ms=10,
        checkpoint_ms=10,
        high_watermark_ms=10,
        flush_ms=10,
        removal_ms=10,
        producer_expiration_ms=10,
    )
    maintenance = LogMaintenance(
        manager, clock=ManualClock(), intervals=intervals, log=silent_logger()
    )
    made: dict[str, int] = {}
    enough = asyncio.Event()

    def counting(name: str) -> Iterator[None]:
        made[name] = made.get(name, 0) + 1
        if len(made) == len(PASSES) and min(made.values()) >= 2:
            enough.set()
        yield

    for name in PASSES:
        monkeypatch.setattr(maintenance, name, lambda name=name: counting(name))
    running = asyncio.get_running_loop().create_task(maintenance.run())
    async with asyncio.timeout(10):
        await enough.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert manager.close() == []
