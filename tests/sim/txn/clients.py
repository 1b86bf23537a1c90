"""Transactional producers and read_committed consumers.

An application has one transactional id and, one after another, incarnations of its producer, of which
a former one may come back from a pause and go on. A producer is a script: a generator that yields what
it asks for, and gets the answer, or None after its patience.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import (
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from highwater.model.ids import GROUP_METADATA_TOPIC
from tests.sim.clients import Endpoint
from tests.sim.log_producers import Entry
from tests.sim.options import NEVER_MS
from tests.sim.txn.batches import header_of, marker_of, transactional_batch
from tests.sim.txn.leaders import Leaders
from tests.sim.txn.observer import Transaction
from tests.sim.txn.offsets import add_request, commit_request

if TYPE_CHECKING:
    from tests.sim.txn.cluster import Cluster
    from tests.sim.world import World

PATIENCE_MS = 300
POLL_MS = 60
SENDS_MAX = 8
RECORDS_MAX = 4
COMMIT_SHARE, ABORT_SHARE = 0.65, 0.15
"""Of the rest, one half dies and one half pauses."""
OFFSETS_SHARE = 0.4
"""Transactions that also commit an offset for a group."""
UNHEARD_SHARE = 0.5
"""Aborts that do not wait for the last record's answer."""
LATE_MS = 150
"""So late such a record may be: behind the marker."""

_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
    }
)
_ABORTABLE = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Of Produce."""


SILENT_MS = 50
AGAIN_SHARE = 0.1
"""Of the reads that begin at the log's start."""


class EndedError(Exception):
    """This incarnation is over."""


class AbortError(Exception):
    """The transaction has to be aborted."""


class Sleep(NamedTuple):
    ms: int


class Ask(NamedTuple):
    """A request to whoever leads a partition."""

    topic: str
    name: str
    args: tuple[Any, ...]
    with_epoch: bool = False
    late_ms: int = 0
    only_while_waiting: bool = False
    """The transport drops it once the client has given it up."""


class _GivenUp(NamedTuple):
    """Tells whether a client has given up a request."""

    producer: TransactionalProducer
    request: int

    def __call__(self) -> bool:
        return self.producer.waits_for != self.request

    def __repr__(self) -> str:
        return "given up?"


Answer = tuple[Any, ...] | None
Script = Generator[Sleep | Ask, Answer, Any]


class Application:
    """One transactional id."""

    def __init__(self, cluster: Cluster, name: str, *, old: bool) -> None:
        """`old`: its producers know transaction.version 0 only."""
        self.cluster = cluster
        self.name = name
        self.old = old
        self.committed = 0
        """Transactions that clients were told to be committed."""
        self.producer: TransactionalProducer | None = None

    def begin(self) -> None:
        """A new incarnation, whatever the former ones do."""
        self.producer = None
        if not self.cluster.quiet:
            self.producer = TransactionalProducer(self)
            self.producer.go_on(0, None)

    def ended(self, producer: TransactionalProducer) -> None:
        """A new one follows if it was the newest."""
        if self.producer is producer:
            self.cluster.home.after(self.cluster.rng.randint(1, 60), self.begin)


class TransactionalProducer(Endpoint):
    """One incarnation."""

    def __init__(self, application: Application) -> None:
        self.cluster = application.cluster
        super().__init__(self.cluster.home, self.cluster.new_client())
        for world in self.cluster.worlds.values():
            world.processes[self.number] = self
        self.application = application
        self.old = application.old
        self._leaders = Leaders(self.cluster.worlds)
        self._rng = self.cluster.rng
        self._request = 0
        self._script: Script = self._life()
        self._id = self._epoch = -1
        self._sequences: dict[str, int] = {}
        self._added: set[str] = set()
        self._unheard = False
        """Whether a record is on its way that nobody waits for."""

    # ---- the script's machine ----

    @property
    def waits_for(self) -> int:
        """The number of its present request."""
        return self._request

    def go_on(self, request: int, answer: Answer) -> None:
        """The answer to a request, or None when the time is over."""
        if request != self._request:
            return
        self._request += 1
        number = self._request
        try:
            wanted = next(self._script) if number == 1 else self._script.send(answer)
        except StopIteration:
            self._request += 1
            self.application.ended(self)
            return
        if isinstance(wanted, Sleep):
            self.world.after(wanted.ms, self.go_on, number, None)
            return
        self._send(wanted, number)
        self.world.after(PATIENCE_MS, self.go_on, number, None)

    def _send(self, wanted: Ask, number: int) -> None:
        leader = self._leaders.of(wanted.topic)
        if leader is not None:
            epoch = (leader[1],) if wanted.with_epoch else ()
            given_up = (_GivenUp(self, number),) if wanted.only_while_waiting else ()
            args = (wanted.name, (self.number, number, *epoch, *wanted.args, *given_up))
            world = self.cluster.worlds[wanted.topic]
            send = world.network.send
            world.after(wanted.late_ms, send, self.number, leader[0], "on_part", args)

    def on_response(self, request: int, code: int, body: bytes) -> None:
        self.go_on(request, (code, body))

    def on_produced(self, request: int, code: int, offset: int) -> None:
        self.go_on(request, (code, offset))

    # ---- the script ----

    def _life(self) -> Script:
        try:
            yield from self._initialize()
            while not self.cluster.quiet:
                yield from self._transaction()
                yield Sleep(self._rng.randint(1, self.cluster.options.produce_ms))
                while self.cluster.home.now < self.cluster.silent_until_ms:
                    yield Sleep(SILENT_MS)
        except EndedError:
            return

    def _initialize(self) -> Script:
        """Also to go on in another epoch (KIP-360), if it has one."""
        timeout_ms = self.cluster.options.transaction_timeout_ms
        wanted = init_producer_id.InitProducerIdRequest(
            self.application.name, timeout_ms, self._id, self._epoch
        )
        answer = yield from self._coordinate(init_producer_id, 5, wanted)
        if answer.error_code:
            raise EndedError
        self._takes(answer.producer_id, answer.producer_epoch)

    def _takes(self, producer_id: int, epoch: int) -> None:
        self.cluster.observer.given(self, producer_id, epoch)
        self._id, self._epoch = producer_id, epoch
        self._sequences = {}
        self._unheard = False

    def _transaction(self) -> Script:
        transaction = Transaction(self.application.name, self._id, self._epoch)
        self._added = set()
        chance = self._rng.random()
        commit = chance < COMMIT_SHARE
        try:
            for _ in range(self._rng.randint(1, RECORDS_MAX)):
                topic = self._rng.choice(self.cluster.record_topics)
                yield from self._write(transaction, topic)
            if self._rng.random() < OFFSETS_SHARE:
                yield from self._commit_offset(transaction)
            if not commit:
                yield from self._does_not_commit(transaction, chance)
        except AbortError:
            commit = False
        yield from self._end(transaction, commit=commit)

    def _does_not_commit(self, transaction: Transaction, chance: float) -> Script:
        """Aborts, dies, or pauses until another one has taken its place, and then goes on."""
        if chance < COMMIT_SHARE + ABORT_SHARE:
            if self._rng.random() < UNHEARD_SHARE:
                topic = self._rng.choice(self.cluster.record_topics)
                yield from self._write(transaction, topic, waits=False)
            return
        self.application.ended(self)
        if self._rng.random() < 0.5:
            raise EndedError
        yield Sleep(self._rng.choice((100, 400, 1_500)))
        for topic in self.cluster.record_topics:
            yield from self._write(transaction, topic)
        yield from self._end(transaction, commit=True)
        raise EndedError

    def _write(self, transaction: Transaction, topic: str, *, waits: bool = True) -> Script:
        if self.old and topic not in self._added:
            yield from self._add(topic)
        self._added.add(topic)
        sequence = self._sequences.get(topic, 0)
        self._sequences[topic] = sequence + 1
        batches = self.cluster.batches
        content = f"{self.number} {sequence}".encode()
        now_ms = self.world.now
        value = batches.add(transactional_batch(self._id, self._epoch, sequence, content, now_ms))
        self.cluster.observer.sent(transaction, value)
        late_ms = 0 if waits else self._rng.randint(0, LATE_MS)
        ask = Ask(topic, "on_produce", (value, self.application.name, not self.old), True, late_ms)
        for _ in range(SENDS_MAX):
            if not waits:
                self._unheard = True
                self._send(ask, 0)
                return
            answer = yield ask
            code = None if answer is None else answer[0]
            if code == 0:
                transaction.acknowledged.append(value)
                return
            if code in _ABORTABLE:
                self._unheard = True
                raise AbortError
            assert code is None or code in _AGAIN, f"Produce is answered {code}"
            yield Sleep(self._rng.randint(1, 30))
        self._unheard = True
        raise AbortError

    def _add(self, topic: str) -> Script:
        wanted = add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.application.name,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(
                    name=topic, partitions=[0]
                )
            ],
        )
        answer = yield from self._coordinate(add_partitions_to_txn, 3, wanted)
        if _code_of(answer):
            raise EndedError

    def _commit_offset(self, transaction: Transaction) -> Script:
        producer = (self.application.name, self._id, self._epoch)
        if self.old:
            answer = yield from self._coordinate(*add_request(*producer))
            if answer.error_code:
                raise EndedError
        self._added.add(GROUP_METADATA_TOPIC)
        offset = self.cluster.observer.new_offset(transaction)
        wanted = commit_request(*producer, offset, old=self.old)
        answer = yield from self._coordinate(*wanted, topic=GROUP_METADATA_TOPIC)
        if _code_of(answer):
            raise AbortError
        transaction.acknowledged.append(-offset)

    def _end(self, transaction: Transaction, *, commit: bool) -> Script:
        if self.old and not self._added:
            return
        if commit:
            transaction.commit_asked = True
        wanted = end_txn.EndTxnRequest(
            transactional_id=self.application.name,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=commit,
        )
        answer = yield from self._coordinate(end_txn, 4 if self.old else 5, wanted)
        if answer.error_code:
            raise EndedError
        self.cluster.observer.told(transaction, committed=commit)
        self.application.committed += commit
        if not self.old:
            self._takes(answer.producer_id, answer.producer_epoch)
        elif self._unheard:
            yield from self._initialize()

    def _coordinate(self, api: Any, version: int, wanted: Any, topic: str = "") -> Script:
        """Asks the coordinator until it answers; the response. `topic` is its, if it is another one
        than that of transactions.
        """
        body = bytes(api.encode_request(wanted, version))
        ask = Ask(topic or self.cluster.state_topic, "on_request", (api.API_KEY, version, body))
        if self.old and api is end_txn:
            # Where the epoch does not tell transactions apart, an end that is late by more than its request
            # would end the next one, in Kafka, too. A client closes the connection of what it gave up.
            ask = ask._replace(only_while_waiting=True)
        while True:
            answer = yield ask
            if answer is not None:
                code, data = answer
                if code == 0:
                    response = api.decode_response(data, 0, version)
                    code = _code_of(response)
                    if code not in _AGAIN:
                        assert code == 0 or code in _FENCED | _ABORTABLE, (
                            f"{api.API_KEY} is answered {code}"
                        )
                        return response
                assert code in _AGAIN, f"{api.API_KEY} is answered {code}"
            yield Sleep(self._rng.randint(5, 40))


def _code_of(response: Any) -> int:
    if isinstance(response, txn_offset_commit.TxnOffsetCommitResponse):
        return int(response.topics[0].partitions[0].error_code)
    if isinstance(response, add_partitions_to_txn.AddPartitionsToTxnResponse):
        (topic,) = response.results_by_topic_v3_and_below
        (one,) = topic.results_by_partition
        return int(one.partition_error_code)
    return int(response.error_code)


class CommittedConsumer(Endpoint):
    """Reads one partition from its beginning, with read_committed."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        world: World = cluster.worlds[topic]
        super().__init__(world, cluster.new_client())
        world.processes[self.number] = self
        self.offset = 0
        self._leaders = Leaders(cluster.worlds)
        self._request = 0
        self._aborted: dict[int, list[int]] = {}

    def poll(self) -> None:
        leader = self._leaders.of(self.topic)
        self._request += 1
        if self._begins_again():
            self.offset = 0
        if leader is not None:
            args = (self.number, self._request, leader[1], self.offset)
            self.world.network.send(self.number, leader[0], "on_part", ("on_fetch", args))
        self.world.after(POLL_MS // 2 + self.cluster.rng.randint(0, POLL_MS), self.poll)

    def _begins_again(self) -> bool:
        """Where producers expire, what was aborted long ago is to be read, too."""
        cluster = self.cluster
        expire = cluster.options.producer_expiration_ms < NEVER_MS
        return expire and not cluster.quiet and cluster.rng.random() < AGAIN_SHARE

    def on_fetched(
        self,
        request: int,
        code: int,
        offset: int,
        entries: list[Entry],
        aborted: list[tuple[int, int]],
    ) -> None:
        if request != self._request or code:
            return
        self._request += 1
        values = self._committed(offset, entries, aborted)
        self.offset = offset + len(entries)
        self.cluster.observer.delivers(self.topic, offset, self.offset, values)

    def _committed(
        self, offset: int, entries: list[Entry], aborted: list[tuple[int, int]]
    ) -> list[int]:
        """The records that a client gives its application (Kafka: `CompletedFetch`): none of a
        producer from an aborted transaction's first offset on to its marker."""
        waiting = sorted((first, producer) for producer, first in aborted)
        ending: set[int] = set()
        values = []
        for place, (_, value, _, _) in enumerate(entries, offset):
            while waiting and waiting[0][0] <= place:
                ending.add(waiting.pop(0)[1])
            data = self.cluster.batches[value]
            producer = header_of(data)[9]
            marker = marker_of(data)
            if marker is not None:
                if not marker.committed:
                    ending.discard(producer)
            elif producer not in ending:
                values.append(value)
        return values
