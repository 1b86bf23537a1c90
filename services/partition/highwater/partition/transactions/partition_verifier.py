"""Asks transaction coordinators whether partitions are in a transaction, or to add them (KIP-890;
Kafka: `AddPartitionsToTxnManager`).

Each other node has at most one request of an instance under way, and what gathers meanwhile goes with the next one.
This node's own coordinator is asked without a request, in the same turn. Who
coordinates is looked up once, when the question comes: an answer from the wrong node makes clients send
their batch again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    decode_response,
    encode_request,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic as RequestTopic,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequestAddPartitionsToTxnTransaction as RequestTransaction,
)
from highwater.model.ids import NO_NODE, InstanceId, NodeId
from highwater.model.transactions import PartitionWriter
from highwater.partition.transactions.core.image import TopicPartition, TransactionKey
from highwater.partition.transactions.core.values import ProducerIdAndEpoch

VERSION: Final = 5
"""Of AddPartitionsToTxn: knows TRANSACTION_ABORTABLE."""
REQUEST_WRITERS_MAX: Final = 5_000
"""Of one request, and a few milliseconds of the loop at its other end."""
REQUEST_BYTES_MAX: Final = 1 << 20
"""Of the names in one request, but for those of one transaction: ids that are long for no good reason must
not make a request too large that others' transactions are in."""

Done = Callable[[int], None]

Codes = Mapping[TopicPartition, int]
"""By partition, the answer."""


class Question(NamedTuple):
    """About one transaction."""

    key: TransactionKey
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    adds_partitions: bool


class LocalCoordinator(Protocol):
    """The transaction coordinator of this node."""

    def ask(self, question: Question, done: Callable[[int, Codes | None], None]) -> None:
        """As an AddPartitionsToTxn of `VERSION`; never raises. `done` is called once, on the loop, now
        or later: with 0 and the answers, or with Kafka's error code.
        """
        ...


class Place(NamedTuple):
    """Where questions go together: a request is about transactions of one instance."""

    node: NodeId
    instance: InstanceId


class CoordinatorFinder(Protocol):
    """The way to the coordinators of transactions."""

    def find(self, key: TransactionKey) -> NodeId:
        """The node that coordinates it; -1 while there is none."""
        ...

    def here(self, place: Place) -> LocalCoordinator | None:
        """The coordinator, if the node is this one; None if it has to be sent a request."""
        ...

    def send(self, place: Place, body: bytes, done: Callable[[int, bytes], None]) -> None:
        """Sends the body of an AddPartitionsToTxn of `VERSION`; never raises.

        `done` is called once, on the loop, now or later: with 0 and the body of the response, or with
        Kafka's error code; NETWORK_EXCEPTION if the node gave no answer.
        """
        ...


class _Key(NamedTuple):
    """One transaction of a request, or of a place's questions."""

    instance: InstanceId
    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds_partition: bool


_Named = tuple[InstanceId, str, int, int, bool]
"""What a `_Key` is."""

_Partitions = dict[TopicPartition, list[Done]]
"""By topic and partition, who asks."""


class PartitionVerifier:
    """A `TransactionVerifier` of one node; used on its loop."""

    def __init__(
        self,
        coordinators: CoordinatorFinder,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._coordinators = coordinators
        self._call_soon = call_soon
        self._queues: dict[Place, dict[_Key, _Partitions]] = {}
        self._of_this_turn: dict[_Named, _Partitions] = {}
        """What is in the queues since the last turn: most transactions ask about several partitions."""
        self._busy: set[Place] = set()
        self._scheduled = False

    def verify(self, writer: PartitionWriter, done: Done) -> None:
        """See `TransactionVerifier`; answers in a later turn."""
        transactional_id, producer_id, epoch, instance, topic, partition, adds = writer
        # A plain tuple, which is equal to its `_Key`, finds those of this turn.
        known = (instance, transactional_id, producer_id, epoch, adds)
        partitions = self._of_this_turn.get(known)
        if partitions is None:
            key = _Key(*known)
            partitions = self._of_this_turn[key] = self._queued(key)
        partitions.setdefault(TopicPartition(topic, partition), []).append(done)

    def _queued(self, key: _Key) -> _Partitions:
        """What the transaction's coordinator will be asked with its next request."""
        node = self._coordinators.find(TransactionKey(key.instance, key.transactional_id))
        self._schedule()
        return self._queues.setdefault(Place(node, key.instance), {}).setdefault(key, {})

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._of_this_turn.clear()
        for place in [place for place in self._queues if place not in self._busy]:
            if place.node != NO_NODE:
                self._send(place)
                continue
            for done in _waiting(self._queues.pop(place)):
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _send(self, place: Place) -> None:
        queue = self._queues.pop(place)
        coordinator = self._coordinators.here(place)
        if coordinator is not None:
            for key, partitions in queue.items():
                question = Question(
                    TransactionKey(place.instance, key.transactional_id),
                    ProducerIdAndEpoch(key.producer_id, key.producer_epoch),
                    frozenset(partitions),
                    key.adds_partition,
                )
                coordinator.ask(question, partial(_tell, partitions))
            return
        sent: dict[_Key, _Partitions] = {}
        count = nbytes = 0
        while queue and count < REQUEST_WRITERS_MAX:
            key = next(iter(queue))
            nbytes += _name_bytes(key, queue[key])
            if sent and nbytes > REQUEST_BYTES_MAX:
                break
            sent[key] = queue.pop(key)
            count += len(sent[key])
        if queue:
            self._queues[place] = queue
        self._busy.add(place)
        body = encode_request(
            AddPartitionsToTxnRequest(
                transactions=[_transaction(key, wanted) for key, wanted in sent.items()]
            ),
            VERSION,
        )
        self._coordinators.send(place, bytes(body), partial(self._answered, place, sent))

    def _answered(
        self, place: Place, sent: dict[_Key, _Partitions], error_code: int, body: bytes
    ) -> None:
        self._busy.discard(place)
        behind: dict[_Key, _Partitions] = {}
        if error_code == ErrorCode.NETWORK_EXCEPTION:
            # What waits behind would wait for the same node, and producers can send again.
            behind = self._queues.pop(place, {})
            self._of_this_turn.clear()
        if self._queues:
            self._schedule()
        codes = None if error_code else _codes(body, sent)
        if codes is None:
            for done in [*_waiting(sent), *_waiting(behind)]:
                done(error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        for partitions, found in zip(sent.values(), codes, strict=True):
            _tell(partitions, 0, found)


def _tell(partitions: _Partitions, error_code: int, codes: Codes | None) -> None:
    """Answers all questions about one transaction."""
    for partition, waiting in partitions.items():
        code = error_code
        if not code:
            code = (codes or {}).get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        for done in waiting:
            done(code)


def _waiting(queue: dict[_Key, _Partitions]) -> list[Done]:
    return [done for partitions in queue.values() for all_ in partitions.values() for done in all_]


def _name_bytes(key: _Key, partitions: _Partitions) -> int:
    topics = {topic for topic, _ in partitions}
    return len(key.transactional_id.encode()) + sum(len(topic.encode()) for topic in topics)


def _transaction(key: _Key, partitions: _Partitions) -> RequestTransaction:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return RequestTransaction(
        transactional_id=key.transactional_id,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        verify_only=not key.adds_partition,
        topics=[RequestTopic(name=name, partitions=found) for name, found in topics.items()],
    )


def _codes(body: bytes, sent: dict[_Key, _Partitions]) -> Sequence[Codes] | None:
    """By topic and partition, the error code, for each transaction of a request, whose order the
    response has; None if the response is another's.
    """
    try:
        response = decode_response(body, 0, VERSION)
    except DecodeError:
        return None
    results = response.results_by_transaction
    names = [result.transactional_id for result in results]
    if response.error_code or names != [key.transactional_id for key in sent]:
        return None
    return [
        {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        for result in results
    ]
