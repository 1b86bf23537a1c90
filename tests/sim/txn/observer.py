"""Checks the rules of transactions (R9, R10, R19 to R22) over all partitions of a cluster.

What is true is told by the committed logs alone, as the observer of each partition keeps them: in their
order, each marker decides the records of its producer that came before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from highwater.kafka.records.batch import CONTROL_BIT, iter_batches
from highwater.kafka.records.record import read_records
from highwater.partition.core.transitions import Role
from highwater.partition.transactions.core.state import AT_REST, PREPARE_COMMIT, PREPARED
from highwater.partition.transactions.records import decode
from tests.sim.observer import ViolationError
from tests.sim.options import NEVER_MS
from tests.sim.txn.batches import header_of, marker_of, producer_of
from tests.sim.txn.offsets import RECORD_BYTES_MAX, pending_offset

if TYPE_CHECKING:
    from tests.sim.disk import SimLog
    from tests.sim.log_producers import Entry
    from tests.sim.txn.cluster import Cluster
    from tests.sim.txn.parts import Node
    from tests.sim.world import World


Ended = tuple[int, int, int, bool]
"""Producer, first offset, the marker's offset, and whether it is committed."""


@dataclass(eq=False, slots=True)
class Transaction:
    """One, as its client sees it; the observer adds what has become of it."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit_asked: bool = False
    told: bool | None = None
    """What its client was told: whether it is committed."""
    fate: bool | None = None
    """What the first marker said."""
    acknowledged: list[int] = field(default_factory=list)
    """Records that the client knows to be in a log."""

    def __str__(self) -> str:
        return f"{self.transactional_id} (producer {self.producer_id}, epoch {self.epoch})"


class TransactionObserver:
    """Of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transactions: dict[int, Transaction] = {}
        """By record."""
        self._fates: dict[int, bool] = {}
        """By record, whether it is committed; not before its marker is."""
        self._seen: dict[str, int] = {}
        self._open: dict[str, dict[int, list[int]]] = {}
        """By topic and producer, records without a marker."""
        self._last: dict[tuple[str, int], tuple[int, int]] = {}
        """By topic and producer, the last epoch and sequence."""
        self._decisions: defaultdict[tuple[int, int], set[bool]] = defaultdict(set)
        """By producer and the epoch of its marker, what the coordinator's log has; before
        transaction.version 2 several transactions have the same epoch."""
        self._offsets = 0
        self._committed_offsets: dict[str, int] = {}
        """By transactional id, the newest offset whose commit is committed."""
        self._owners: dict[tuple[int, int], object] = {}

    # ---- clients ----

    def given(self, producer: object, producer_id: int, epoch: int) -> None:
        """R10: an epoch belongs to one incarnation, so that those before it are fenced."""
        owner = self._owners.setdefault((producer_id, epoch), producer)
        if owner is not producer:
            raise ViolationError(f"R10: producer {producer_id}, epoch {epoch}, is given twice")

    def sent(self, transaction: Transaction, value: int) -> None:
        """A record is on its way."""
        self._transactions[value] = transaction

    def new_offset(self, transaction: Transaction) -> int:
        """An offset that is to be committed for a group: each is another one, and larger. As a
        record of its transaction it is negative.
        """
        self._offsets += 1
        self._transactions[-self._offsets] = transaction
        return self._offsets

    def told(self, transaction: Transaction, *, committed: bool) -> None:
        """The coordinator has answered."""
        transaction.told = committed
        self._check(transaction, "its client was told")

    # ---- logs ----

    def follow(self, topic: str, world: World) -> None:
        """After every event: what is committed now."""
        history = world.observer.history
        seen = self._seen.get(topic, 0)
        if seen == len(history):
            return
        self._seen[topic] = len(history)
        if topic == self._cluster.state_topic:
            self._follow_decisions(history[seen:])
            return
        undecided = self._open.setdefault(topic, {})
        for _, value, _, _ in history[seen:]:
            data = self._cluster.batches[value]
            header = header_of(data)
            producer_id = header[9]
            if header[5] & CONTROL_BIT:
                marker = marker_of(data)
                assert marker is not None
                ended = undecided.pop(producer_id, [])
                if ended and marker.committed not in self._decisions[producer_id, header[10]]:
                    raise ViolationError(
                        f"R21: producer {producer_id}, epoch {header[10]}, is "
                        f"{_name(marker.committed)} in {topic}, its coordinator has decided "
                        f"{self._decisions[producer_id, header[10]] or 'nothing'}"
                    )
                for one in ended:
                    self._decided(topic, one, committed=marker.committed)
                known = self._last.get((topic, producer_id), (-1, -1))
                if header[10] > known[0]:
                    self._last[topic, producer_id] = (header[10], -1)
            elif topic in self._cluster.record_topics:
                self._in_sequence(topic, producer_id, header[10], header[11])
                undecided.setdefault(producer_id, []).append(value)
            elif (offset := pending_offset(data)) is not None:
                undecided.setdefault(producer_id, []).append(-offset)

    def _follow_decisions(self, entries: Sequence[Entry]) -> None:
        """The committed records of the coordinator."""
        for _, value, _, _ in entries:
            for record in iter_batches(self._cluster.batches[value]):
                (one,) = read_records(record, RECORD_BYTES_MAX)
                image = decode(one.key, one.value).value
                if image is not None and image.state in PREPARED:
                    decisions = self._decisions[image.producer_id, image.producer_epoch]
                    decisions.add(image.state is PREPARE_COMMIT)

    def _in_sequence(self, topic: str, producer_id: int, epoch: int, sequence: int) -> None:
        known = self._last.get((topic, producer_id), (epoch, -1))
        self._last[topic, producer_id] = (epoch, sequence)
        expected = known[1] + 1 if epoch == known[0] else 0
        if epoch < known[0] or sequence != expected:
            raise ViolationError(
                f"R10: in {topic}, producer {producer_id} commits sequence {sequence} of epoch "
                f"{epoch} after {known[1]} of epoch {known[0]}"
            )

    def _decided(self, topic: str, value: int, *, committed: bool) -> None:
        """R21: all records of a transaction have one fate, in all partitions."""
        self._fates[value] = committed
        transaction = self._transactions[value]
        if transaction.fate is None:
            transaction.fate = committed
        elif transaction.fate != committed:
            raise ViolationError(
                f"R21: {transaction} is {_name(committed)} in {topic}, "
                f"{_name(transaction.fate)} elsewhere"
            )
        if committed and value < 0:
            self._committed_offsets[transaction.transactional_id] = -value
        self._check(transaction, f"its marker in {topic} is")

    def _check(self, transaction: Transaction, why: str) -> None:
        fate, told = transaction.fate, transaction.told
        if fate and not transaction.commit_asked:
            raise ViolationError(f"R21: {transaction} is committed, nobody has asked for it: {why}")
        if fate is not None and told is not None and fate != told:
            raise ViolationError(
                f"R21: {transaction} is {_name(fate)}, its client was told {_name(told)}"
            )

    # ---- leaders and replicas ----

    def serves(
        self, node: Node, stable: int, offset: int, end: int, aborted: list[tuple[int, int]]
    ) -> None:
        """R19, R20: of one answer to a read_committed consumer."""
        process = node.process
        log = process.log
        opened, ended = self._read(log)
        high = process.replica.high_watermark
        expected = _stable(high, opened, ended, high)
        if stable != expected and not expected < stable <= self._was_stable(node, opened, ended):
            raise ViolationError(
                f"R19: node {process.node} of {node.replica.topic_name} takes {stable} for the last "
                f"stable offset, it is {expected}"
            )
        overlapping = [
            (producer, first)
            for producer, first, marker, committed in ended
            if not committed and first < end and marker >= offset and end > offset
        ]
        if sorted(aborted) != sorted(overlapping):
            raise ViolationError(
                f"R20: from {offset} to {end} of {node.replica.topic_name}, {overlapping} were "
                f"aborted, node {process.node} tells {aborted}"
            )

    def _was_stable(self, node: Node, opened: dict[int, int], ended: Sequence[Ended]) -> int:
        """Where producers expire, nobody knows of a marker that was committed before they did: a start
        whose high watermark is an older one goes on from there with what was stable by then.
        """
        high = int(node.process.replica.high_watermark)
        if self._cluster.options.producer_expiration_ms == NEVER_MS:
            return -1
        return _stable(high, opened, ended, node.process.world.observer.end)

    def looks_at(self, node: Node) -> None:
        """R19: a replica knows which transactions are open in its log."""
        process = node.process
        if (
            process.replica.role is Role.OFFLINE
            or process.log.writing
            or process.role.answers.stalled
        ):
            return
        opened, _ = self._read(process.log)
        known = process.log.producers.transactions.open
        if known != opened:
            raise ViolationError(
                f"R19: node {process.node} of {node.replica.topic_name} takes {known} for open, "
                f"these are: {opened}"
            )

    def _read(self, log: SimLog) -> tuple[dict[int, int], list[Ended]]:
        """Open transactions by their first offset, and ended ones."""
        opened: dict[int, int] = {}
        ended = []
        for offset, (_, value, _, _) in enumerate(log.entries, log.base):
            data = self._cluster.batches[value]
            producer_id = producer_of(data)
            marker = marker_of(data)
            if marker is None:
                if producer_id >= 0:
                    opened.setdefault(producer_id, offset)
            elif producer_id in opened:
                first = opened.pop(producer_id)
                ended.append((producer_id, first, offset, marker.committed))
        return opened, ended

    # ---- consumers ----

    def delivers(self, topic: str, offset: int, end: int, values: list[int]) -> None:
        """R9: a read_committed consumer gets all committed records, and no others."""
        world = self._cluster.worlds[topic]
        if end > world.observer.end:
            raise ViolationError(f"R9: a consumer of {topic} has read up to {end}")
        told = [value for _, value, _, _ in world.observer.history[offset:end]]
        expected = [value for value in told if self._fates.get(value)]
        if values == expected:
            return
        for value in values:
            if not self._fates.get(value):
                what = "an aborted" if value in self._fates else "an open"
                raise ViolationError(
                    f"R9: a consumer of {topic} saw a record of {what} transaction, "
                    f"{self._transactions[value]}"
                )
        raise ViolationError(f"R9: a consumer of {topic} got {values} instead of {expected}")

    def fetched_offset(self, transactional_id: str, offset: int) -> None:
        """R21: a group's offset that is told to be stable was committed by a transaction."""
        if offset >= 0 and not self._fates.get(-offset):
            what = "an aborted" if -offset in self._fates else "an open"
            raise ViolationError(
                f"R21: the group of {transactional_id} has offset {offset} of {what} transaction"
            )

    # ---- the end ----

    def not_at_rest(self) -> str:
        """R22: why not all transactions have ended, while no client begins another one."""
        for topic in self._cluster.marked_topics:
            world = self._cluster.worlds[topic]
            leader = world.processes.get(world.controller.partition.leader)
            if leader is None:
                return f"{topic} has no leader"
            if hanging := leader.log.producers.transactions.open:
                return f"{hanging} hang in {topic}"
            if leader.replica.high_watermark < leader.log.end:
                return f"{topic} is committed up to {leader.replica.high_watermark}"
        leader = self._cluster.home.processes.get(self._cluster.home.controller.partition.leader)
        shard = None if leader is None else self._cluster.coordinators.shard_of(leader.part)
        if shard is None:
            return "nobody coordinates"
        for name, image in shard.images.items():
            if image.state not in AT_REST:
                return f"{name.transactional_id} is {image.state.value}"
        for consumer in self._cluster.consumers:
            if consumer.offset < consumer.world.observer.end:
                return f"a consumer of {consumer.topic} is at {consumer.offset}"
        for fetcher in self._cluster.offset_fetchers:
            expected = self._committed_offsets.get(fetcher.name, -1)
            if fetcher.found != expected:
                return f"the group of {fetcher.name} has {fetcher.found} instead of {expected}"
        return ""

    def ended(self) -> None:
        """R21: what was committed is there, every record of it."""
        for transaction in dict.fromkeys(self._transactions.values()):
            if transaction.told:
                for value in transaction.acknowledged:
                    if not self._fates.get(value):
                        raise ViolationError(f"R21: {transaction} lacks a record")

    def fates(self) -> Iterator[str]:
        """What has become of each transaction that has a marker."""
        for transaction in dict.fromkeys(self._transactions.values()):
            if transaction.fate is not None:
                yield _name(transaction.fate)
                if transaction.commit_asked and not transaction.fate:
                    yield "aborted though a commit was asked for"


def _stable(high: int, opened: dict[int, int], ended: Sequence[Ended], committed: int) -> int:
    """The last stable offset, where markers before `committed` are."""
    unstable = [first for _, first, marker, _ in ended if marker >= committed]
    return min([high, *opened.values(), *unstable])


def _name(committed: bool) -> str:
    return "committed" if committed else "aborted"
