"""A gateway's listener with few descriptors, in its own process; see test_listener.

It prints its port. Then, for each line on its standard input, it prints its counters.
"""

import asyncio
import json
import resource
import sys

import uvloop

from highwater.gateway.sockets import listener as module
from tests.unit.gateway.sockets.listener_world import World

DESCRIPTORS = 60


class Lines:
    """A logger that keeps the names of error lines."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def error(self, event: str, **_values: object) -> None:
        self.events.append(event)


async def main() -> None:
    module.SWEEP_S = 0.05
    lines = Lines()
    world = World()
    await world.listen(log=lines)
    await asyncio.to_thread(lambda: None)  # After this no new thread is started.
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    print(world.port, flush=True)
    async with asyncio.timeout(60):
        while await asyncio.to_thread(sys.stdin.readline):
            listener = world.listener
            print(
                json.dumps(
                    {
                        "shortages": listener.descriptor_shortages,
                        "events": lines.events,
                        "connections": len(listener.connections),
                    }
                ),
                flush=True,
            )
    await world.listener.close(drain_s=0)


if __name__ == "__main__":
    uvloop.run(main())
