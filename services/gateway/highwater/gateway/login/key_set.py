"""The keys of a token's issuer, read from a file or URL (sasl.oauthbearer.jwks.endpoint.url) and read again.

Reading happens on another thread; the loop has the newest set, which is never changed. A set is read
again when it is old, and when a token names a key that is not in it, but not more often than each
`AGAIN_S_MIN` seconds. A set that cannot be read leaves the former one in place.
"""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeAlias

from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.login.token_rules import PublicKey, parse_keys
from highwater.runtime.logging import Logger

AGAIN_S_MIN: Final = 10.0
SET_BYTES_MAX: Final = 1 << 20
READ_S_MAX: Final = 10.0
PART_BYTES: Final = 1 << 16
Keys: TypeAlias = tuple[PublicKey, ...]
"""Those that have one id."""
SCHEMES: Final = ("https://", "http://", "file:///")


def read_url(url: str) -> bytes:
    """What is there. Blocks; raises OSError, also if it is too large, or comes too slowly."""
    assert url.startswith(SCHEMES), "the settings have been checked"
    ends_s = time.monotonic() + READ_S_MAX
    data = bytearray()
    with urllib.request.urlopen(url, timeout=READ_S_MAX) as reply:  # noqa: S310 - see the assertion.
        # In parts: the time limit above is that of each wait, however little comes.
        while part := reply.read1(PART_BYTES):
            data += part
            if len(data) > SET_BYTES_MAX:
                raise OSError(f"more than {SET_BYTES_MAX} bytes")
            if time.monotonic() > ends_s:
                raise TimeoutError(f"not complete within the time limit of {READ_S_MAX} s")
    return bytes(data)


class KeySet:
    """See the module. Lives as long as the gateway, on its loop."""

    def __init__(
        self,
        url: str,
        *,
        refresh_s: float,
        reading: Executor,
        now_s: Callable[[], float],
        log: Logger,
        read: Callable[[str], bytes] = read_url,
    ) -> None:
        """`refresh_s`: how old a set may become. `reading` runs `read`; `now_s` is monotonic."""
        self._url = url
        self._refresh_s = refresh_s
        self._reading = reading
        self._now_s = now_s
        self._log = log
        self._read = read
        self._keys: Mapping[str, Keys] = {}
        self._read_at_s: float | None = None
        self._tried_at_s: float | None = None
        self._under_way: asyncio.Future[dict[str, Keys]] | None = None

    async def find(self, key_id: str) -> Keys:
        """The keys with that id, mostly one; the only one there is, if the token names none. Raises
        LoginRefused.
        """
        if self._older_than(self._read_at_s, self._refresh_s):
            await self._refresh()
        found = self._look_up(key_id)
        if found is None:
            await self._refresh()
            found = self._look_up(key_id)
        if found is None:
            raise LoginRefused("the token is signed with a key that is not in the issuer's set")
        return found

    def _look_up(self, key_id: str) -> Keys | None:
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _older_than(self, moment_s: float | None, seconds: float) -> bool:
        return moment_s is None or self._now_s() - moment_s >= seconds

    async def _refresh(self) -> None:
        """Reads the set, unless that has just been tried; many that wait share one reading."""
        if self._under_way is None:
            if not self._older_than(self._tried_at_s, AGAIN_S_MIN):
                return
            self._tried_at_s = self._now_s()
            loop = asyncio.get_running_loop()
            work = partial(_load, self._read, self._url)
            self._under_way = loop.run_in_executor(self._reading, work)
            self._under_way.add_done_callback(self._loaded)
        # A login that ends early does not end the reading, for which others may wait.
        await asyncio.wait({self._under_way})

    def _loaded(self, reading: "asyncio.Future[dict[str, Keys]]") -> None:
        self._under_way = None
        if reading.cancelled():
            return  # The gateway stops.
        error = reading.exception()
        if error is None:
            self._keys = reading.result()
            self._read_at_s = self._now_s()
        else:
            # At most once in AGAIN_S_MIN.
            self._log.warning("oauth_keys_not_read", url=self._url, error=str(error))


def _load(read: Callable[[str], bytes], url: str) -> dict[str, Keys]:
    document = json.loads(read(url))
    if not isinstance(document, dict):
        raise ValueError("it is no set of keys")  # noqa: TRY004 - what is told of any bad document.
    return parse_keys(document)
