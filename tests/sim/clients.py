"""Producers and consumers, which ask any gateway for the leader.

An idempotent producer sends a batch again until it is acknowledged; a plain one gives up when the
outcome is unknown. A consumer reads on from where it is, and goes back only if its log was cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.replica import ACKS_ALL
from tests.sim.log_producers import Entry

if TYPE_CHECKING:
    from tests.sim.world import World

PATIENCE_MS = 400
POLL_MS = 60
LOST_SEQUENCE = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Endpoint:
    """A process on the network that never fails."""

    incarnation = 0
    paused = False

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.inbox: list[tuple[str, tuple[Any, ...]]] = []


class Client(Endpoint):
    """Knows the newest leader epoch that any gateway told it."""

    known_epoch = -1

    def leader(self) -> tuple[int, int] | None:
        """(node, leader epoch); None if nobody leads, or for metadata that is old (KIP-320)."""
        told = self.world.gateways.ask()
        if told is None or told[1] < self.known_epoch:
            return None
        self.known_epoch = told[1]
        return told if told[0] >= 0 else None


class Producer(Client):
    """One batch of one record at a time."""

    def __init__(self, world: World, number: int, *, idempotent: bool, acks: int) -> None:
        super().__init__(world, number)
        self.idempotent = idempotent
        self.acks = acks
        self.pid = world.new_producer_id() if idempotent else -1
        self.sequence = 0
        self.value = world.new_value()
        self.request = 0
        self.acknowledged = 0
        self.since_offset = 0
        """Where the log ended at most when the present value was first sent."""

    def send(self) -> None:
        """Sends, or sends again; a wake-up follows if nothing is heard."""
        world = self.world
        self.request += 1
        leader = self.leader()
        if leader is not None:
            world.network.send(
                self.number,
                leader[0],
                "on_produce",
                (
                    self.number,
                    self.request,
                    leader[1],
                    self.acks,
                    self.value,
                    self.pid,
                    self.sequence,
                ),
            )
        world.after(PATIENCE_MS, self.timed_out, self.request)

    def on_appended(self, request: int, offset: int) -> None:
        if request == self.request:
            self.acknowledged += 1
            self.next(advance=True)

    def on_refused(self, request: int, code: int) -> None:
        """Not appended."""
        if request != self.request:
            return
        if code in LOST_SEQUENCE:
            # Only after a loss: the observer has checked that there was one, or finds gaps.
            self.world.observer.sequence_lost(self)
            self.pid = self.world.new_producer_id()
            self.sequence = 0
            self.next(advance=False)
            return
        self.request += 1
        self.world.after(self.world.options.produce_ms, self.resend, self.request)

    def on_unknown(self, request: int) -> None:
        if request == self.request:
            self.timed_out(request)

    def timed_out(self, request: int) -> None:
        if request != self.request:
            return
        if self.idempotent:
            self.send()
        else:
            self.next(advance=False)

    def resend(self, request: int) -> None:
        if request == self.request:
            self.send()

    def next(self, *, advance: bool) -> None:
        if self.idempotent and advance:
            self.sequence += 1
        self.value = self.world.new_value()
        self.since_offset = self.world.observer.end
        self.request += 1
        pause = 1 + int(self.world.rng.random() * self.world.options.produce_ms)
        self.world.after(pause, self.resend, self.request)


class Consumer(Client):
    """Reads from offset 0 on, with the epochs that KIP-320 asks for."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.offset = 0
        self.last_epoch = -1
        self.consumed_epoch = -1
        """The newest leader epoch that it has read in."""
        self.request = 0

    def poll(self) -> None:
        world = self.world
        leader = self.leader()
        self.request += 1
        if leader is not None:
            world.network.send(
                self.number,
                leader[0],
                "on_consume",
                (self.number, self.request, leader[1], self.offset, self.last_epoch),
            )
        pause = POLL_MS // 2 + int(world.rng.random() * POLL_MS)
        world.after(pause, self.poll)

    def on_consumed(
        self,
        request: int,
        code: int,
        epoch: int,
        offset: int,
        entries: list[Entry],
        diverging: tuple[int, int] | None,
        start: int,
    ) -> None:
        if request != self.request:
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if offset > start:
                self.world.observer.consumer_cut(self, (-1, start))
            self.offset, self.last_epoch = start, -1
            return
        if code:
            return
        observer = self.world.observer
        if diverging is not None:
            observer.consumer_cut(self, diverging)
            self.offset = max(min(diverging[1], self.offset), 0)
            self.last_epoch = diverging[0]
            return
        observer.consumed(self, epoch, offset, entries)
        self.consumed_epoch = epoch
        if entries:
            self.offset += len(entries)
            self.last_epoch = entries[-1][0]


def make_producers(world: World, first: int) -> list[Producer]:
    """The workload that the options ask for, on consecutive endpoints."""
    options = world.options
    producers = []
    for number in range(options.idempotent + options.plain):
        idempotent = number < options.idempotent
        acks = 1 if options.acks_one and not idempotent else ACKS_ALL
        producers.append(Producer(world, first - number, idempotent=idempotent, acks=acks))
    return producers
