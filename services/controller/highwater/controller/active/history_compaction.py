"""Compacts the metadata store's history: etcd keeps old values of keys until it is told to.

Every change rewrites keys, and etcd keeps every revision of them until its space quota is used up.
It then refuses all writes. If etcd compacts itself, this is not needed, and does no harm.

Each round compacts what was history at the round before, so that watchers have at least the
interval to catch up. A watcher that was away longer reads the range again (CompactedError). Source:
Kubernetes' apiserver does the same every five minutes (storage/etcd3/compact.go).
"""

import asyncio

from highwater.controller.store.head import HEAD
from highwater.controller.store.port import MetadataStore, StoreUnavailableError
from highwater.runtime.logging import Logger


class HistoryCompaction:
    """The periodic task of one term of office.

    It needs no fence: a controller that was paused only compacts up to an older revision.
    """

    def __init__(
        self, store: MetadataStore, *, from_revision: int, interval_ms: int, log: Logger
    ) -> None:
        """`from_revision` is any past revision; `interval_ms` between rounds, 0 for never."""
        self._store = store
        self._past = from_revision
        """The store's revision at the last round, or an older one."""
        self._interval_s = interval_ms / 1000
        self._log = log

    async def run(self) -> None:
        """Runs a round every interval, for ever. Raises StoreWentBackError."""
        while self._interval_s > 0:
            await asyncio.sleep(self._interval_s)
            try:
                await self.round()
            except StoreUnavailableError as error:
                self._log.warning("cannot_compact_store", error=str(error))

    async def round(self) -> None:
        """Compacts, and notes the revision for the next round.

        Raises StoreUnavailableError, StoreWentBackError.
        """
        await self._store.compact(self._past)
        self._log.info("store_compacted", revision=self._past)
        # Not the image's revision: producer ids, elections and tokens also move the store's.
        self._past = (await self._store.range(HEAD)).revision
