"""Compacts the metadata store's history; etcd keeps former values of keys until it is told.

Every change rewrites keys, and etcd keeps every revision of them until its space quota is used up.
It then refuses all writes. An etcd that compacts itself does not need this, and is not harmed by it.

Each round forgets what was history at the round before, so that watchers have at least the interval
to catch up. A watcher that was away for longer reads the range anew (CompactedError). Source:
Kubernetes' apiserver does the same every five minutes (storage/etcd3/compact.go).
"""

import asyncio

from highwater.controller.store.head import HEAD
from highwater.controller.store.port import MetadataStore, StoreUnavailableError
from highwater.runtime.logging import Logger


class HistoryCompaction:
    """The periodic task of one term of office.

    It needs no fence: what a controller that was paused has noted is only older than it thinks.
    """

    def __init__(
        self, store: MetadataStore, *, from_revision: int, interval_ms: int, log: Logger
    ) -> None:
        """`from_revision` is some revision before now; `interval_ms` between rounds, 0 for never."""
        self._store = store
        self._past = from_revision
        """A revision that was the store's at the last round, or before it."""
        self._interval_s = interval_ms / 1000
        self._log = log

    async def run(self) -> None:
        """Rounds for ever, the first after an interval. Raises StoreWentBackError."""
        while self._interval_s > 0:
            await asyncio.sleep(self._interval_s)
            try:
                await self.round()
            except StoreUnavailableError as error:
                self._log.warning("cannot_compact_store", error=str(error))

    async def round(self) -> None:
        """Forgets, and notes what the next round forgets.

        Raises StoreUnavailableError, StoreWentBackError.
        """
        await self._store.compact(self._past)
        self._log.info("store_compacted", revision=self._past)
        # The image's revision does not tell of producer ids, elections and tokens.
        self._past = (await self._store.range(HEAD)).revision
