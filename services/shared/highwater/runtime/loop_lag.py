"""Measures how late the event loop runs, and logs the call that blocks it.

The monitor sleeps a short while on the loop and measures how late it wakes. A watchdog thread
reports stalls: when there was no beat for a while it logs the stack of the loop's thread, once for
each stall.
"""

import asyncio
import sys
import threading
import time
import traceback
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

_BEAT_S: Final = 0.1
STALL_S: Final = 1.0
"""Longer stalls are logged; a tenth of it would log every large garbage collection."""

_LAG_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopLagMonitor:
    """Watches the loop that `start` was called on."""

    def __init__(
        self, service: str, registry: CollectorRegistry, log: Logger, *, stall_s: float = STALL_S
    ) -> None:
        self._log = log
        self._stall_s = stall_s
        self._tasks = TaskOwner(self._failed, tasks_max=1)
        self._beat_s = time.monotonic()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lag = Gauge(
            f"highwater_{service}_loop_lag_seconds",
            "How late the event loop woke at the last beat.",
            registry=registry,
        )
        self._lags = Histogram(
            f"highwater_{service}_loop_lag_distribution_seconds",
            "How late the event loop woke, every 100 ms.",
            buckets=_LAG_BUCKETS_S,
            registry=registry,
        )

    async def start(self) -> None:
        """Starts the beat and the watchdog."""
        self._beat_s = time.monotonic()
        self._tasks.start(self._beat(), name="loop-lag")
        self._thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="loop-watchdog", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Stops both; harmless if they were never started."""
        self._stopping.set()
        await self._tasks.close(timeout_s=1.0)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            now_s = time.monotonic()
            lag_s = max(0.0, now_s - self._beat_s - _BEAT_S)
            self._beat_s = now_s
            self._lag.set(lag_s)
            self._lags.observe(lag_s)

    def _watch(self, loop_thread: int) -> None:
        reported_beat_s = 0.0
        while not self._stopping.wait(self._stall_s / 4):
            beat_s = self._beat_s
            if time.monotonic() - beat_s < self._stall_s or beat_s == reported_beat_s:
                continue
            reported_beat_s = beat_s
            frame = sys._current_frames().get(loop_thread)  # noqa: SLF001 - the only way to see it.
            stack = "".join(traceback.format_stack(frame)) if frame is not None else "unknown"
            self._log.error("event_loop_stalled", stalled_s=self._stall_s, stack=stack)

    def _failed(self, name: str, error: BaseException) -> None:
        self._log.error("task_failed", task=name, exc_info=error)
