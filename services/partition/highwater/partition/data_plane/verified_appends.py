"""Transactional groups that wait until the transaction coordinator was asked (KIP-890).

A group with batches of a producer that has no transaction open in the partition waits here, and behind
it all groups of its transactional id, so that a producer's batches stay in order; other producers' pass.
What the coordinator grants is noted in the log's `core.verifications`, which the append asks: a marker
that is written meanwhile takes it back. Then the replica appends the group as if it came now, in the next
turn, with all that were granted in this one (`joined_groups`).

| what happens | the group |
|---|---|
| the coordinator grants it | appended, and the next one is looked at |
| it refuses, for all batches | refused with the code that producers know for it |
| for some, of a fenced producer | appended: the log takes only what was granted |
| the transaction before has not ended (CONCURRENT_TRANSACTIONS), and the leader adds the partition | asked for again, for `RETRY_MS_MAX` |
| its deadline passes | REQUEST_TIMED_OUT, not appended |
| the leader's epoch ends | not appended, after all groups that came before it |

Sources: Kafka's `ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.hop.append import AppendGroup, Failure, TransactionalWrite
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    BATCH_HEADER,
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
)
from highwater.model.time import CallLater
from highwater.model.transactions import PartitionWriter, TransactionVerifier
from highwater.partition.core.sequences import last_sequence
from highwater.partition.core.verifications import Verification, produce_error
from highwater.partition.data_plane.joined_groups import joined
from highwater.partition.data_plane.replica_role import ReplicaRole

GROUPS_MAX: Final = 4096
"""That wait at one partition."""
BYTES_MAX: Final = 64 << 20
"""That wait at one node. Gateways hold these bytes in their budgets, too, but they are many."""
RETRY_S: Final = 0.02
"""Kafka's add.partitions.to.txn.retry.backoff.ms."""
RETRY_MS_MAX: Final = 100
"""Kafka's add.partitions.to.txn.retry.backoff.max.ms: then the client has to send it again."""
EXPIRY_S: Final = 0.5
"""Between two looks at deadlines, while groups wait."""

_unpack_header = BATCH_HEADER.unpack_from
_Writer = tuple[int, int]
"""A producer's id and epoch."""


class AppendVerification:
    """Of one data plane: the way to coordinators, and how much waits for them."""

    __slots__ = ("_due", "call_later", "nbytes", "verifier")

    def __init__(self, verifier: TransactionVerifier, call_later: CallLater) -> None:
        self.verifier = verifier
        self.call_later = call_later
        self.nbytes = 0
        self._due: list[VerifiedAppends] = []

    def append_soon(self, appends: "VerifiedAppends") -> None:
        """Calls its `append_granted` in the next turn."""
        if not self._due:
            self.call_later(0, self._append_due)
        self._due.append(appends)

    def _append_due(self) -> None:
        due, self._due = self._due, []
        for appends in due:
            appends.append_granted()


class _Waiting:
    """The groups of one transactional id; the coordinator is asked for the first."""

    __slots__ = ("asked_about", "asked_for", "codes", "groups", "since_ms", "unanswered")

    def __init__(self, group: AppendGroup) -> None:
        self.groups = deque([group])
        self.asked_for: AppendGroup | None = None
        self.since_ms = 0
        """When it was asked for the first time."""
        self.unanswered = self.asked_about = 0
        """Of the producers that the coordinator was asked about the last time."""
        self.codes: dict[_Writer, int] = {}
        """What was refused."""


class VerifiedAppends:
    """See the module. Made with the replica's first transactional group; lives as long as it."""

    __slots__ = ("_append", "_count", "_granted", "_looks", "_node", "_queues", "_replica")

    def __init__(
        self,
        replica: ReplicaRole,
        node: AppendVerification,
        append: Callable[[AppendGroup], None],
    ) -> None:
        """`append` gives a group to the replica, and raises nothing."""
        self._replica = replica
        self._node = node
        self._append = append
        self._queues: dict[str, _Waiting] = {}
        self._granted: dict[str, list[AppendGroup]] = {}
        """By transactional id, what will be appended in the next turn."""
        self._count = 0
        self._looks = False
        """Whether deadlines will be looked at."""

    def __len__(self) -> int:
        """Groups that wait."""
        return self._count

    def takes(self, group: AppendGroup) -> bool:
        """True if the group waits here, or was refused; False if it is to be appended now."""
        transaction = group.transaction
        if transaction is None:
            return False
        waiting = self._queues.get(transaction.transactional_id)
        if waiting is None and transaction.transactional_id in self._granted:
            self.append_granted()
        missing: dict[_Writer, int] | None = None
        if waiting is None:
            if not self._may_append(group):
                return False
            missing = self._missing(group)
            if not missing:
                return False
        if self._count >= GROUPS_MAX or self._node.nbytes + group.nbytes > BYTES_MAX:
            group.fail(
                Failure(ErrorCode.REQUEST_TIMED_OUT, "too much waits for transaction coordinators")
            )
            return True
        self._count += 1
        self._node.nbytes += group.nbytes
        if waiting is not None:
            waiting.groups.append(group)
            return True
        waiting = self._queues[transaction.transactional_id] = _Waiting(group)
        self._look_later()
        self._go_on(transaction.transactional_id, waiting, missing)
        return True

    def leader_gone(self) -> None:
        """Answers all groups, each producer's in their order."""
        queues, self._queues = self._queues, {}
        granted, self._granted = self._granted, {}
        for of_one in granted.values():
            for group in of_one:
                self._leave(group)
            for group in of_one:
                group.fail(self._replica.not_leader())
        for waiting in queues.values():
            groups, waiting.groups = waiting.groups, deque()
            for group in groups:
                self._leave(group)
            for group in groups:
                group.fail(self._replica.not_leader())

    def _may_append(self, group: AppendGroup) -> bool:
        """Whether the replica would append it, now or when it resumes."""
        core = self._replica.core
        if core.resigned and self._replica.leading:
            return group.leader_epoch == core.leader_epoch
        return not core.refuse_append(group.leader_epoch, group.acks)

    def _missing(self, group: AppendGroup) -> dict[_Writer, int]:
        """Whom the coordinator has to be asked for, with the first sequence of each. Not for batches
        that are in the log already.
        """
        states = self._replica.log.producers.states
        missing: dict[_Writer, int] = {}
        for batch in group.batches:
            if len(batch) < HEADER_SIZE:
                continue
            header = _unpack_header(batch, 0)
            attributes, last_delta, producer_id = header[5], header[6], header[9]
            epoch, sequence = header[10], header[11]
            if (
                producer_id < 0
                or not attributes & TRANSACTIONAL_BIT
                or attributes & CONTROL_BIT
                or (producer_id, epoch) in missing
            ):
                continue
            last = last_sequence(sequence, last_delta)
            if states.has_to_ask(producer_id, epoch, sequence, last):
                missing[producer_id, epoch] = sequence
        return missing

    # ---- one transactional id ----

    def _go_on(
        self, name: str, waiting: _Waiting, missing: dict[_Writer, int] | None = None
    ) -> None:
        """Appends or refuses groups until the coordinator has to be asked, or none is left. `missing`
        is of the first group, if the caller has just looked.
        """
        while waiting.groups:
            group = waiting.groups[0]
            if missing is None:
                missing = self._missing(group)
            refused = waiting.codes if group is waiting.asked_for else {}
            unknown = missing
            if missing and refused:
                unknown = {one: at for one, at in missing.items() if one not in refused}
            if unknown:
                if group is not waiting.asked_for:
                    waiting.codes = {}
                    waiting.asked_for = group
                    waiting.since_ms = self._replica.clock.monotonic_ms()
                self._ask(name, waiting, unknown)
                return
            waiting.groups.popleft()
            waiting.asked_for = None
            if missing and _refuse(group, refused):
                self._leave(group)
            else:
                self._append_soon(name, group)
            missing = None
        if self._queues.get(name) is waiting:
            del self._queues[name]

    def _append_soon(self, name: str, group: AppendGroup) -> None:
        if not self._granted:
            self._node.append_soon(self)
        self._granted.setdefault(name, []).append(group)

    def append_granted(self) -> None:
        """Appends what was granted, each producer's groups in their order."""
        granted, self._granted = self._granted, {}
        groups = [group for of_one in granted.values() for group in of_one]
        for group in groups:
            self._leave(group)
        for group in joined(groups):
            self._append(group)

    def _ask(self, name: str, waiting: _Waiting, unknown: dict[_Writer, int]) -> None:
        transaction = _transaction(waiting.groups[0])
        replica = self._replica
        verifications = replica.log.producers.states.verifications
        waiting.unanswered = waiting.asked_about = len(unknown)
        for (producer_id, epoch), sequence in unknown.items():
            verification = verifications.asked(
                producer_id, epoch, sequence, own_epoch=transaction.adds_partition
            )
            self._node.verifier.verify(
                PartitionWriter(
                    transactional_id=transaction.transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    instance=waiting.groups[0].instance,
                    topic=replica.topic_name,
                    partition=replica.partition,
                    adds_partition=transaction.adds_partition,
                ),
                partial(self._answered, name, waiting, producer_id, verification),
            )

    def _answered(
        self,
        name: str,
        waiting: _Waiting,
        producer_id: int,
        verification: Verification,
        code: int,
    ) -> None:
        if self._queues.get(name) is not waiting:
            return
        verifications = self._replica.log.producers.states.verifications
        if not code and not verifications.grant(producer_id, verification):
            code = verification.late_code
        if code:
            waiting.codes[producer_id, verification.epoch] = code
        waiting.unanswered -= 1
        if waiting.unanswered:
            return
        first = waiting.groups[0] if waiting.groups else None
        if not waiting.codes and waiting.asked_about == 1 and first is waiting.asked_for:
            # Granted just now, to its only producer: nothing can have taken it back.
            self._go_on(name, waiting, {})
        elif self._may_retry(waiting):
            self._node.call_later(RETRY_S, partial(self._retry, name, waiting))
        else:
            self._go_on(name, waiting)

    def _may_retry(self, waiting: _Waiting) -> bool:
        group = waiting.asked_for
        if group is None or ErrorCode.CONCURRENT_TRANSACTIONS not in waiting.codes.values():
            return False
        waited_ms = self._replica.clock.monotonic_ms() - waiting.since_ms
        return _transaction(group).adds_partition and waited_ms < RETRY_MS_MAX

    def _retry(self, name: str, waiting: _Waiting) -> None:
        if self._queues.get(name) is waiting:
            waiting.codes = {
                writer: code
                for writer, code in waiting.codes.items()
                if code != ErrorCode.CONCURRENT_TRANSACTIONS
            }
            self._go_on(name, waiting)

    # ---- deadlines ----

    def _leave(self, group: AppendGroup) -> None:
        self._count -= 1
        self._node.nbytes -= group.nbytes

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._node.call_later(EXPIRY_S, self._expire)

    def _expire(self) -> None:
        self._looks = False
        now_ms = self._replica.clock.monotonic_ms()
        late: list[AppendGroup] = []
        for waiting in self._queues.values():
            expired = [one for one in waiting.groups if 0 < one.last_deadline_ms <= now_ms]
            if expired:
                late += expired
                gone = set(expired)
                waiting.groups = deque(one for one in waiting.groups if one not in gone)
        for group in late:
            self._leave(group)
        if self._queues:
            self._look_later()
        for group in late:
            group.fail(
                Failure(ErrorCode.REQUEST_TIMED_OUT, "the transaction coordinator is too slow")
            )


def _transaction(group: AppendGroup) -> TransactionalWrite:
    assert group.transaction is not None
    return group.transaction


def _refuse(group: AppendGroup, refused: dict[_Writer, int]) -> bool:
    """Refuses the group if all its batches are refused; False if some may be appended."""
    adds_partition = _transaction(group).adds_partition
    failures: dict[int, Failure] = {}
    for place, batch in enumerate(group.batches):
        header = _unpack_header(batch, 0) if len(batch) >= HEADER_SIZE else None
        code = 0 if header is None else refused.get((header[9], header[10]), 0)
        if not code:
            return False
        failures[place] = Failure(
            produce_error(code, adds_partition=adds_partition),
            f"the transaction was not verified: its coordinator answered with error {code}",
        )
    group.complete([-1] * len(group.batches), failures)
    return True
