"""All handlers are loaded soon after a gateway's start."""

from highwater.gateway.handling.apis import APIS
from highwater.gateway.requests.handler_loading import (
    LOADING_AFTER_S,
    PAUSE_S,
    RETRY_S,
    load_all_handlers,
)


async def test_every_served_api_is_loaded_once_and_failures_are_tried_again():
    loaded, pauses = [], []

    def load(api):
        if len(loaded) == 3 and RETRY_S not in pauses:
            raise OSError(24, "Too many open files")
        loaded.append(api.key)

    async def pause(seconds):
        pauses.append(seconds)

    await load_all_handlers(pause, load)
    served = [api.key for api in APIS.values() if api.module is not None]
    assert loaded == served
    assert pauses[0] == LOADING_AFTER_S
    assert pauses.count(RETRY_S) == 1
    assert pauses.count(PAUSE_S) == len(served)
