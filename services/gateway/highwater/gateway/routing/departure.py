"""A gateway that stops says so first: clients hear of other gateways while this one still serves.

Otherwise clients whose connections it has closed would be sent back to it until its session ends.
"""

import asyncio
import contextlib
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.metadata.heartbeat import Heartbeats
from highwater.runtime.logging import Logger

LEAVE_S_MAX: Final = 1.0
"""Without an answer of the controller in this time, the gateway stops nevertheless."""
BEAT_S: Final = 0.1
"""Between heartbeats of a gateway that waits for the answer."""


class Departure:
    """One gateway's. `begun` goes into its heartbeats, whose answers come to `answered`."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._allowed = asyncio.Event()
        self.begun = False

    def answered(self, response: pb.HeartbeatResponse, *, registering: bool = False) -> None:
        """Takes the answer to a heartbeat. `registering`: the gateway had been lost, and is about to be
        named to clients again.
        """
        # A controller that took over meanwhile does not know the gateway: it is removed already.
        unknown = response.error.error_code and not registering
        if self.begun and (response.may_shut_down or unknown):
            self._allowed.set()

    async def leave(self, heartbeats: Heartbeats) -> bool:
        """Returns once all gateways name others to clients, or false after LEAVE_S_MAX."""
        self.begun = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S_MAX):
                while not self._allowed.is_set():
                    heartbeats.nudge()
                    await self._wait_for_answer()
                return True
        self._log.warning("gateway_not_removed", timeout_s=LEAVE_S_MAX)
        return False

    async def _wait_for_answer(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEAT_S):
                await self._allowed.wait()
