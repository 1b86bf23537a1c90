"""Checks during attacks that an honest client is served, and that memory stays bounded."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from highwater.kafka.error_codes import ErrorCode
from tests.conformance.protocol.requests import batch, batches_of, fetch, produce
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection

MEMORY_BUDGET_BYTES = 256 << 20
"""The default budget of a gateway for requests that are being received or answered."""

_SLACK_BYTES = 64 << 20
_PAUSE_S = 0.05
_ROUND_S_MAX = 15.0


class HonestClient:
    """Produces and fetches on one connection all the time; use as a context manager.

    Leaving raises the first failure: an error code, a wrong record, a closed connection, a round
    that took too long, or that there was no round.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.rounds = 0
        self.slowest_s = 0.0
        self._bootstrap = cluster.bootstrap
        self._topic = make_topic(cluster.bootstrap, "honest")
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="honest client", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(_ROUND_S_MAX * 2)
        assert not self._thread.is_alive(), "the honest client hangs"
        print(f"honest client: {self.rounds} rounds, the slowest took {self.slowest_s:.2f} s")
        if self._error is not None:
            raise AssertionError(
                f"the honest client failed after {self.rounds} rounds"
            ) from self._error
        assert self.rounds > 0

    def _run(self) -> None:
        try:
            with RawConnection.to(self._bootstrap) as connection:
                # One round at least, however short the attack.
                while not self._stopping.wait(_PAUSE_S) or not self.rounds:
                    started = time.monotonic()
                    self._round(connection)
                    self.rounds += 1
                    self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                    assert self.slowest_s < _ROUND_S_MAX
        except BaseException as error:  # noqa: BLE001  # The test's thread raises it.
            self._error = error

    def _round(self, connection: RawConnection) -> None:
        records = batch([b"honest %d" % self.rounds])
        part = produce(connection, self._topic, records)
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, self.rounds)
        fetched = fetch(connection, self._topic, self.rounds)
        assert fetched.error_code == ErrorCode.NONE
        (view,) = batches_of(fetched)
        assert view.base_offset == self.rounds


class MemoryWatch:
    """Samples the cluster's resident memory; use as a context manager.

    `idle_bytes` is taken on entering; leaving asserts that the most ever seen stayed below
    idle + budget + 64 MiB.
    """

    def __init__(self, cluster: Cluster, *, budget_bytes: int = MEMORY_BUDGET_BYTES) -> None:
        self._cluster = cluster
        self._budget_bytes = budget_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory watch", daemon=True)
        self.idle_bytes = 0
        self.most_bytes = 0

    def __enter__(self) -> Self:
        self.idle_bytes = self.most_bytes = self._cluster.resident_bytes()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(10)
        grown = self.most_bytes - self.idle_bytes
        print(f"memory: idle {self.idle_bytes >> 20} MiB, grew by {grown >> 20} MiB")
        if kind is None and self._cluster.mode != "kafka":
            assert self.most_bytes > 0
            assert grown <= self._budget_bytes + _SLACK_BYTES

    def _run(self) -> None:
        while not self._stopping.wait(0.2):
            self.most_bytes = max(self.most_bytes, self._cluster.resident_bytes())
