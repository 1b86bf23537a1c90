"""Waits on the loop for what a coordinator does by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Let the loop run until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    turns = 0
    while not condition():
        assert loop.time() < end, "it never came true"
        turns += 1
        await asyncio.sleep(0 if turns < 50 else 0.002)
