"""From `main` to exit code: runs a service under uvloop until a signal or a failure.

SIGTERM and SIGINT stop the service in order and within a deadline; a second signal ends the
process at once. Exit codes: 0 stopped cleanly, 1 failed (or did not stop in time), 2 the operator
must change something (one line on standard error, no traceback).
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import uvloop

from highwater.model.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, UsageError
from highwater.runtime.collector import THRESHOLDS
from highwater.runtime.descriptors import raise_descriptor_limit
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

STOP_TIMEOUT_S_DEFAULT: Final = 25.0
"""Below the 30 s after which container runtimes kill."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Service(Protocol):
    """A service as its process sees it: it starts once, stops once, and may fail in between."""

    @property
    def failed(self) -> asyncio.Future[None]:
        """Gets an exception when the service cannot go on; otherwise stays pending."""
        ...

    async def start(self) -> None:
        """Returns when the service is reachable. Raises UsageError for operators' mistakes."""
        ...

    async def stop(self) -> None:
        """Returns when everything is closed; also called after a start that failed half-way."""
        ...


def run(
    build: Callable[[], Awaitable[Service]],
    log: Logger,
    *,
    stop_timeout_s: float = STOP_TIMEOUT_S_DEFAULT,
) -> int:
    """Builds the service on a fresh uvloop loop, runs it, and returns the exit code.

    The process gets as many descriptors as it may have, before services divide them.
    """
    raise_descriptor_limit(log)
    gc.set_threshold(*THRESHOLDS)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(build, log, stop_timeout_s))
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)
        return EXIT_USAGE


async def _run(build: Callable[[], Awaitable[Service]], log: Logger, stop_timeout_s: float) -> int:
    loop = asyncio.get_running_loop()
    stop_asked: asyncio.Future[signal.Signals] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if stop_asked.done():
            log.error("second_signal", signal=number.name)
            os._exit(EXIT_FAILED)  # The second signal: do not wait for the drain.
        stop_asked.set_result(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        service = await build()
        return await _run_until(service, stop_asked, log, stop_timeout_s)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _run_until(
    service: Service, stop_asked: asyncio.Future[signal.Signals], log: Logger, stop_timeout_s: float
) -> int:
    code = EXIT_OK
    starts = TaskOwner(lambda _name, _error: None)  # A failed start is raised by its result below.
    try:
        # A signal during a long start (recovery) must not wait for the start to end.
        starting = starts.start(service.start(), name="start")
        await asyncio.wait((starting, stop_asked), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            await starts.close(timeout_s=stop_timeout_s)
        else:
            starting.result()
            gc.freeze()  # What a service consists of is there for as long as its process.
            log.info("started")
            await asyncio.wait((service.failed, stop_asked), return_when=asyncio.FIRST_COMPLETED)
            if service.failed.done() and not service.failed.cancelled():
                code = EXIT_FAILED
                log.error("failed", exc_info=service.failed.exception())
        if stop_asked.done():
            log.info("stopping", signal=stop_asked.result().name)
    finally:
        if not await _stop(service, log, stop_timeout_s):
            code = EXIT_FAILED
        elif stop_asked.done():
            log.info("stopped")
    return code


async def _stop(service: Service, log: Logger, stop_timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(stop_timeout_s):
            await service.stop()
    except TimeoutError:
        log.error("stop_timed_out", timeout_s=stop_timeout_s)
        return False
    except Exception:
        log.exception("stop_failed")
        return False
    return True
