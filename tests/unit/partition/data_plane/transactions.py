"""Producers with transactions at a node of the data plane."""

from __future__ import annotations

from highwater.hop.append import TransactionalWrite
from highwater.model.transactions import AwaitedMarker, TransactionMarker
from highwater.partition.core.producers import ProducerStates
from highwater.partition.data_plane.markers import MarkerWriter
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC, Sink
from tests.unit.partition.data_plane.node import EPOCH, Node

WRITE = TransactionalWrite("payments", adds_partition=True)


class Producer:
    """Writes to partition 0 as its client would, each batch the next one."""

    def __init__(self, node: Node, producer_id: int = 7, *, epoch: int = 0) -> None:
        self.node = node
        self.producer_id, self.epoch, self.sequence = producer_id, epoch, 0

    def write(
        self, *, records: int = 1, known: bool = True, transactional: bool = True, acks: int = -1
    ) -> Sink:
        batch = make_batch(
            timestamps=(self.node.clock.now_ms,) * records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )
        group, sink = self.node.group(batch, acks=acks)
        if transactional:
            group.transaction = WRITE
        if known and transactional:
            self.grant()
        self.node.plane.append([group])
        if sink.codes.get(0) == 0:
            self.sequence += records
        return sink

    def grant(self) -> None:
        """The coordinator knows of the transaction."""
        verifications = self.states.verifications
        asked = verifications.asked(self.producer_id, self.epoch, self.sequence)
        assert verifications.grant(self.producer_id, asked)

    @property
    def states(self) -> ProducerStates:
        return self.node.plane.replicas[TOPIC, 0].log.producers.states

    def end(
        self,
        *,
        commit: bool,
        epoch: int | None = None,
        coordinator_epoch: int = 0,
        version: int = 0,
        leader_epoch: int = EPOCH,
    ) -> list[int]:
        """The answers to a marker so far."""
        answers: list[int] = []
        marker = TransactionMarker(
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
        )
        MarkerWriter(self.node.plane, TOPIC).write_markers(
            0, leader_epoch, [AwaitedMarker(marker, answers.append)]
        )
        return answers
