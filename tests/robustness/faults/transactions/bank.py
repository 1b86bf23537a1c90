"""A bank under load: tellers whose transfers are transactions, and a consumer that watches.

See `tests.robustness.faults.transactions.ledger` for what a transfer is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaException

from tests.robustness.faults.checker import Violation
from tests.robustness.faults.transactions.clients import (
    PATIENCE_S,
    STOP_S_MAX,
    TransactionalClient,
)
from tests.robustness.faults.transactions.ledger import (
    Ledger,
    Leg,
    Outcome,
    Transfer,
    leg_in,
    postings_of,
    value_of,
)
from tests.robustness.faults.transactions.ledger_checker import violations
from tests.robustness.faults.transactions.reading import (
    COMMITTED,
    UNCOMMITTED,
    Reader,
    last_offsets,
    read_all,
    wait_for_ends,
)
from tests.support.process import wait_until

_BETWEEN_S = 0.05
_ABORT_EVERY = 5
_SETTLE_S_MAX = 2 * PATIENCE_S
"""A teller's last transfer, with a client that is replaced once."""

MakeClient = Callable[[str], TransactionalClient]
"""Makes the client of a transactional id."""


class Bank:
    """Runs from `start` until `finish`. Implements `Load`."""

    name = "bank"

    def __init__(
        self,
        clients: Mapping[str, Any],
        topic: str,
        partitions: int,
        tellers: Mapping[str, MakeClient],
    ) -> None:
        """`tellers` are named by their transactional ids."""
        self.ledger = Ledger(partitions)
        self._bootstrap = clients["bootstrap.servers"]
        self._topic = topic
        self._stopping = threading.Event()
        self._reader = Reader(clients, topic, partitions, self._take_read)
        self._tellers = [
            _Teller(name, make, self.ledger, self._stopping) for name, make in tellers.items()
        ]

    def start(self) -> None:
        for thread in (self._reader, *self._tellers):
            thread.start()

    def commits(self) -> dict[str, int]:
        """By teller, the number of committed transfers."""
        return {one.name: len(self.ledger.committed_s[one.name]) for one in self._tellers}

    def finish(self, *, timeout_s: float) -> None:
        """Ends the tellers, and reads the topic as everybody sees it. Raises TimeoutError."""
        self._stopping.set()
        for teller in self._tellers:
            teller.join(_SETTLE_S_MAX)
            assert not teller.is_alive(), f"{teller.name} does not end"
        ledger = self.ledger
        place = (self._bootstrap, self._topic, ledger.partitions)
        ledger.ends = wait_for_ends(*place, timeout_s=timeout_s)
        for isolation, records in ((COMMITTED, ledger.committed), (UNCOMMITTED, ledger.everything)):

            def take(partition: int, offset: int, value: bytes | None, into: Any = records) -> None:
                into[partition].append((offset, leg_in(partition, value, ledger.partitions)))

            read_all(*place, isolation, take, timeout_s=timeout_s)
        last = last_offsets(ledger.committed)
        wait_until(
            lambda: self._reader.has_read(last), timeout_s=timeout_s, what="the reader at the end"
        )
        self.abandon()

    def abandon(self) -> None:
        self._stopping.set()
        self._reader.stop(STOP_S_MAX)
        for teller in self._tellers:
            if teller.ident is not None:
                teller.join(STOP_S_MAX)

    def judge(self) -> list[Violation]:
        """The violations of a history that is finished."""
        return violations(self.ledger)

    def errors(self) -> dict[str, list[str]]:
        """By client, what nobody expects of any fault."""
        found = {name: errors for name, errors in self.ledger.errors.items() if errors}
        return {**found, **({"reader": self._reader.errors} if self._reader.errors else {})}

    def summary(self) -> str:
        """Counts, in one line."""
        counts = ", ".join(f"{self.ledger.count(one)} {one.value}" for one in Outcome)
        replaced = {t.name: t.client.replaced for t in self._tellers if t.client.replaced}
        return f"{counts}; {self.commits()}; replaced {replaced}; errors {self.errors()}"

    def _take_read(self, partition: int, offset: int, value: bytes | None) -> None:
        leg = leg_in(partition, value, self.ledger.partitions)
        self.ledger.read[partition].append((offset, leg))


class _Teller(threading.Thread):
    """Makes one transfer after the other, and aborts some of them on purpose."""

    def __init__(
        self, name: str, make: MakeClient, ledger: Ledger, stopping: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.client = make(name)
        self._ledger = ledger
        self._stopping = stopping

    def run(self) -> None:
        number = 0
        try:
            with closing(self.client):
                while not self._stopping.is_set():
                    self._transfer(Transfer(self.name, number))
                    number += 1
                    self._stopping.wait(_BETWEEN_S)
        except (KafkaException, OSError, AssertionError) as error:
            self._ledger.errors[self.name].append(f"ended: {error!r}")

    def _transfer(self, transfer: Transfer) -> None:
        partitions = self._ledger.partitions
        postings = postings_of(transfer, partitions)
        records = [
            (posting.partition, value_of(Leg(transfer, index), partitions))
            for index, posting in enumerate(postings)
        ]
        self._ledger.outcomes[transfer] = Outcome.OPEN
        on_purpose = transfer.number % _ABORT_EVERY == _ABORT_EVERY - 1
        outcome = self.client.transact(records, abort=on_purpose)
        self._ledger.outcomes[transfer] = outcome
        if outcome is Outcome.COMMITTED:
            self._ledger.committed_s[self.name].append(time.monotonic())
