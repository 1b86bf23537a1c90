"""A shard of transactions called as a client and a marker sender call it; checked after each step."""

from __future__ import annotations

import itertools

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.transactions.core import invariants
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import (
    TopicPartition,
    TransactionImage,
    TransactionKey,
    TransactionRecord,
)
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.values import Decision, EndRequest, ProducerIdAndEpoch

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
WALL_MS = 1_700_000_000_000
LAST_EPOCH = 32_766
"""The last that a client gets."""


def key(name: str = "tx", instance: InstanceId = DEFAULT_INSTANCE) -> TransactionKey:
    return TransactionKey(instance, name)


def image(**fields) -> TransactionImage:
    return TransactionImage(
        **(
            {
                "producer_id": 1000,
                "producer_epoch": 5,
                "timeout_ms": 60_000,
                "update_ms": WALL_MS,
                "start_ms": WALL_MS,
            }
            | fields
        )
    )


class Dialogue:
    """One transactional id, "tx", unless another is named."""

    def __init__(self, *, version: int = 2, config: TransactionConfig | None = None) -> None:
        self.version = version
        self.config = config or TransactionConfig()
        self.ids = itertools.count(1000)
        self.has_ids = True
        self.now_ms = 0
        self.written: list = []
        self.prepared: list = []
        self.shard = self._new_shard()
        self.shard.activate(self.now)

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, self._next_id, lambda: self.version)

    def _next_id(self) -> int | None:
        return next(self.ids) if self.has_ids else None

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    def settle(self) -> None:
        self.written += self.shard.take_records()
        self.prepared += self.shard.take_prepared()
        assert self.shard.take_replies() == []
        invariants.check(self.shard)

    def reload(self) -> None:
        """Another coordinator takes over: all it has is what was written."""
        self.shard = self._new_shard()
        for record in self.written:
            self.shard.replay(record)
        self.prepared = []
        self.shard.activate(self.now)
        self.settle()

    def put(self, known: TransactionImage, name: str = "tx") -> None:
        """Begins with this image of the transactional id."""
        self.written.append(TransactionRecord(key(name), known))
        self.reload()

    def init(self, *, expected=None, timeout_ms=60_000, name="tx") -> Decision:
        decision = self.shard.initialize(key(name), timeout_ms, expected, self.now)
        self.settle()
        return decision

    def begin(self, name="tx") -> ProducerIdAndEpoch:
        """A producer that has just taken the transactional id."""
        decision = self.init(name=name)
        assert decision.error == ErrorCode.NONE
        return decision.producer

    def add(self, producer, *partitions, version=2, name="tx") -> ErrorCode:
        error = self.shard.add(
            key(name), producer, frozenset(partitions or {T0}), version, self.now
        )
        self.settle()
        return error

    def end(self, producer, *, commit=True, version=2, name="tx") -> Decision:
        request = EndRequest(producer=producer, commit=commit, version=version)
        decision = self.shard.end(key(name), request, self.now)
        self.settle()
        return decision

    def complete(self, name="tx") -> None:
        """All markers are written."""
        for partition in self.image(name).partitions:
            self.shard.marker_written(key(name), partition)
        self.shard.complete(key(name), self.now)
        self.settle()

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        for _ in range(20):
            due_ms = self.shard.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                break
            self.shard.expire(self.now)
        self.settle()

    def image(self, name="tx") -> TransactionImage:
        return self.shard.images[key(name)]
