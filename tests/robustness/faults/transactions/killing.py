"""Clients whose processes get SIGKILL in the middle of a transaction, and others with the same id.

What a dead client has left open is ended by its successor, which fences it, or by the transaction's
timeout. Nobody may ever see a part of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence

from tests.robustness.faults.transactions.clients import STOP_S_MAX
from tests.robustness.faults.transactions.ledger import Outcome
from tests.robustness.faults.transactions.programs import FranzCopier, ProgramClient

_KILL_EVERY = 4
"""Transactions: enough of them are committed, so that what dies lies between others."""
_UNTIL_KILL_S_MAX = 0.05
"""A transaction takes some 10 ms: some have been answered by then, others have not begun."""
_COPIER_LIVES_S = 8.0
"""A member that is gone is missed for a session (6 s)."""


class KilledClient:
    """Implements `TransactionalClient`. The process is killed again and again: by turns with an open
    transaction whose records are written, and at a moment that chance chooses.
    """

    def __init__(self, client: ProgramClient, seed: int) -> None:
        self.replaced = client.replaced
        self.kills = 0
        self._client = client
        self._chance = random.Random(seed)
        self._count = 0

    def transact(self, records: Sequence[tuple[int, bytes]], *, abort: bool) -> Outcome:
        self._count += 1
        if self._count % _KILL_EVERY:
            return self._client.transact(records, abort=abort)
        held = self.kills % 2 == 0
        self.kills += 1
        return hang(self._client, records) if held else self._die_soon(records, abort=abort)

    def close(self) -> None:
        """A last successor ends what a dead one has left open."""
        if not self._client.is_running:
            self._client.transact([], abort=True)
        self._client.close()

    def _die_soon(self, records: Sequence[tuple[int, bytes]], *, abort: bool) -> Outcome:
        self._client.begin(records, abort=abort)
        time.sleep(self._chance.uniform(0, _UNTIL_KILL_S_MAX))
        self._client.kill()
        # Who asked for an abort never asked for a commit.
        return Outcome.ABORTED if abort else Outcome.UNKNOWN


def hang(client: ProgramClient, records: Sequence[tuple[int, bytes]]) -> Outcome:
    """Leaves a transaction with these records that its client will never end."""
    client.begin(records, abort=False, hold=True)
    assert client.outcome() is Outcome.OPEN
    client.kill()
    return Outcome.ABORTED


class KilledCopier(threading.Thread):
    """A copier whose process is killed from time to time. Implements `Copier`."""

    def __init__(self, copier: FranzCopier) -> None:
        super().__init__(name=copier.name, daemon=True)
        self.kills = 0
        self._copier = copier
        self._stopping = threading.Event()

    def run(self) -> None:
        self._copier.start()
        while not self._stopping.wait(_COPIER_LIVES_S):
            self._copier.kill()
            self.kills += 1
            self._copier.start()

    def spare(self) -> None:
        self._stopping.set()
        if self.ident is not None:
            self.join(STOP_S_MAX)

    def stop(self) -> None:
        self.spare()
        self._copier.stop()

    def summary(self) -> str:
        return f"killed {self.kills} times; {self._copier.summary()}"
