"""Loads all handlers while the gateway has descriptors, for when it has none left.

A handler is loaded with the first request for it, so that a gateway is ready at once. Without this
task, a request of a kind that had not come before would fail while there is no free descriptor.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from highwater.gateway.handling.apis import APIS, Api
from highwater.gateway.requests.dispatch import handler_of

LOADING_AFTER_S: Final = 2.0
"""A process that ends sooner, as many of the command line do, is spared the work."""
PAUSE_S: Final = 0.02
"""Between two handlers; each takes some 10 ms."""
RETRY_S: Final = 1.0
"""After one that could not be read."""


async def load_all_handlers(
    pause: Callable[[float], Awaitable[object]], load: Callable[[Api], object] = handler_of
) -> None:
    """Loads one after another, until all are there; `pause` waits for so many seconds."""
    await pause(LOADING_AFTER_S)
    missing = deque(api for api in APIS.values() if api.module is not None)
    while missing:
        try:
            load(missing[0])
        except OSError:  # No free descriptor, most likely.
            await pause(RETRY_S)
            continue
        missing.popleft()
        await pause(PAUSE_S)
