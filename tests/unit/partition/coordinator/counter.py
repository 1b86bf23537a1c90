"""A coordinator of counters: the smallest one that uses all that a host offers.

A counter grows by ADD and is gone `LIFE_MS` after its last change. WAIT is answered when its
counter is high enough, PEEK at once, SUM after the commits of all counters that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import InvalidValueError, UnsupportedVersionError
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.partition.coordinator.calls import ShardCalls, ShardOf
from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment, Reply
from highwater.partition.coordinator.hosts import ShardHosts
from highwater.partition.coordinator.kind import CoordinatorKind
from highwater.partition.coordinator.records import EncodedRecord, RecordCodec, UnknownRecordError
from highwater.partition.coordinator.replies import Replies
from highwater.partition.coordinator.shard_host import HostSettings, HostState
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import Logger, silent_logger
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until

MAGIC: Final = b"HWCT"
LIFE_MS: Final = 60_000
KEY_VERSION: Final = 1

ADD, PEEK, WAIT, SUM, NAMES, NAMES_IN_STEPS = range(1_000, 1_006)
"""API keys that Kafka does not have."""

BUG: Final = "bug"
"""A counter whose changes and timers raise."""


class Count(NamedTuple):
    """Sets or, with None, deletes a counter."""

    name: str
    value: int | None


class Reached(NamedTuple):
    """The answer to WAIT."""

    name: str
    value: int


def encode(record: Count) -> EncodedRecord:
    key = KEY_VERSION.to_bytes(2) + record.name.encode()
    return EncodedRecord(key, None if record.value is None else record.value.to_bytes(8))


def decode(key: bytes | None, value: bytes | None) -> Count:
    if key is None or int.from_bytes(key[:2]) != KEY_VERSION:
        raise UnknownRecordError("not a counter")
    if value is None:
        return Count(key[2:].decode(), None)
    if len(value) != 8:
        raise InvalidValueError("not a count")
    return Count(key[2:].decode(), int.from_bytes(value))


class Counts:
    """The durable state."""

    def __init__(self, values: dict[str, int] | None = None) -> None:
        self.values = dict(values or {})

    def replay(self, record: Count) -> None:
        if record.value is None:
            self.values.pop(record.name, None)
        else:
            self.values[record.name] = record.value

    def records(self) -> Iterator[Count]:
        for name, value in self.values.items():
            yield Count(name, value)


class CounterShard:
    """See `Shard`."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.timers = TimerHeap()
        self.ends: dict[str, Timer] = {}
        self.waits: dict[object, tuple[str, int]] = {}
        self.records: list[Count] = []
        self.replies: list[Reply[Reached]] = []

    # -- what handlers call -------------------------------------------------------------------

    def add(self, name: str, by: int, now: Moment) -> int:
        if name == BUG:
            self._apply(Count(name, by))
            raise ZeroDivisionError
        value = self.counts.values.get(name, 0) + by
        self._apply(Count(name, value))
        self._live(name, now)
        for token, (waited, least) in list(self.waits.items()):
            if waited == name and value >= least:
                del self.waits[token]
                self.replies.append(Reply(token, Reached(name, value), after_commit=True))
        return value

    def wait(self, name: str, least: int, token: object) -> int | None:
        value = self.counts.values.get(name, 0)
        if value >= least:
            return value
        self.waits[token] = (name, least)
        return None

    # -- what the host calls ------------------------------------------------------------------

    def replay(self, record: Count) -> None:
        self.counts.replay(record)

    def activate(self, now: Moment) -> None:
        for name in self.counts.values:
            self._live(name, now)

    def next_deadline_ms(self) -> int | None:
        return self.timers.next_deadline_ms()

    def expire(self, now: Moment) -> None:
        self.timers.expire(now)

    def take_records(self) -> list[Count]:
        taken, self.records = self.records, []
        return taken

    def take_replies(self) -> list[Reply[Reached]]:
        taken, self.replies = self.replies, []
        return taken

    def is_parked(self, token: object) -> bool:
        return token in self.waits

    def parked_tokens(self) -> list[object]:
        return list(self.waits)

    def forget_call(self, token: object, now: Moment) -> None:
        del self.waits[token]

    def capture(self) -> Counts:
        return Counts(self.counts.values)

    def _apply(self, record: Count) -> None:
        self.counts.replay(record)
        self.records.append(record)

    def _live(self, name: str, now: Moment) -> None:
        timer = self.ends.setdefault(name, Timer(partial(self._end, name)))
        self.timers.set(timer, now.now_ms + LIFE_MS)

    def _end(self, name: str, now: Moment) -> None:
        assert now.wall_ms
        self._apply(Count(name, None))


def _reply(call: CoordinatorCall, response: Reached) -> bytes:
    return f"{response.name} {response.value}".encode()


def _error_for(api_key: int, error: int) -> int:
    return ErrorCode.NETWORK_EXCEPTION if api_key == SUM and error == 15 else error


def _while_loading(call: CoordinatorCall) -> bytes | None:
    return b"soon" if call.api_key == PEEK else None


COUNTERS: Final = CoordinatorKind(
    name="counter",
    new_shard=CounterShard,
    hosted=lambda shard: shard,
    codec=RecordCodec(encode=encode, decode=decode),
    replies=Replies(encode=_reply, error_for=_error_for, while_loading=_while_loading),
    snapshot_magic=MAGIC,
)


def _words(call: CoordinatorCall, count: int) -> list[str]:
    if call.api_version:
        raise UnsupportedVersionError(call.api_key, call.api_version)
    words = bytes(call.body).decode().split()
    if len(words) != count:
        raise InvalidValueError(f"{len(words)} words")
    return words


def _add(shard: CounterShard, call: CoordinatorCall, now: Moment) -> bytes:
    name, by = _words(call, 2)
    return b"%d" % shard.add(name, int(by), now)


def _wait(shard: CounterShard, call: CoordinatorCall, now: Moment) -> bytes | None:
    name, least = _words(call, 2)
    value = shard.wait(name, int(least), call)
    return None if value is None else b"%d" % value


def _peek(shard: CounterShard, call: CoordinatorCall, now: Moment) -> bytes:
    (name,) = _words(call, 1)
    if name == BUG:
        raise ZeroDivisionError
    return b"%d" % shard.counts.values.get(name, 0)


def _sum(call: CoordinatorCall, shard_of: ShardOf[CounterShard]) -> bytes | ErrorCode:
    total = 0
    for name in bytes(call.body).decode().split():
        shard = shard_of(name)
        if isinstance(shard, ErrorCode):
            return shard
        if name == BUG:
            raise ZeroDivisionError
        total += shard.counts.values.get(name, 0)
    return b"%d" % total


def _names(shards: Iterator[CounterShard], call: CoordinatorCall) -> bytes:
    _words(call, 0)
    return " ".join(sorted(name for shard in shards for name in shard.counts.values)).encode()


def _names_in_steps(shards: Iterator[CounterShard], call: CoordinatorCall) -> Steps[bytes]:
    _words(call, 0)
    found = []
    for name in sorted(name for shard in shards for name in shard.counts.values):
        if name == BUG:
            raise ZeroDivisionError
        found.append(name)
        yield
    return " ".join(found).encode()


class Sent:
    """A submitted call and its answer."""

    def __init__(self) -> None:
        self.call: CoordinatorCall | None = None
        self.answers: list[tuple[int, bytes]] = []

    @property
    def done(self) -> bool:
        return bool(self.answers)

    @property
    def answer(self) -> int | str:
        """The error code, or else the body."""
        ((error, body),) = self.answers
        return error or body.decode()


class Counters:
    """A coordinator of counters on a log in memory."""

    def __init__(
        self,
        log: MemoryLog | None = None,
        snapshots: MemorySnapshots | None = None,
        *,
        clock: Clock | None = None,
        settings: HostSettings | None = None,
        partitions: int = 1,
        logger: Logger | None = None,
    ) -> None:
        self.log = log or MemoryLog()
        self.snapshots = snapshots or MemorySnapshots()
        self.hosts = ShardHosts(
            COUNTERS,
            log=self.log,
            snapshots=self.snapshots,
            clock=clock or SystemClock(),
            logger=logger or silent_logger(),
            settings=settings,
        )
        self.turns: list[Callable[[], None]] = []
        """What is to be done in the loop's next turns."""
        self.calls = ShardCalls(
            self.hosts, partition_of=partial(coordinator_place, partitions=partitions)
        )

    async def lead(self, *partitions: int, epoch: int = 1) -> Counters:
        for partition in partitions or (0,):
            self.hosts.become_leader(partition, epoch)
        for partition in partitions or (0,):
            await until(partial(self.is_active, partition))
        return self

    def is_active(self, partition: int = 0) -> bool:
        host = self.hosts.by_partition.get(partition)
        return host is not None and host.state is HostState.ACTIVE

    def submit(
        self,
        api_key: int,
        body: str,
        *,
        partition: int = 0,
        deadline_ms: int = 60_000,
        version: int = 0,
        instance: InstanceId = DEFAULT_INSTANCE,
    ) -> Sent:
        sent = Sent()
        call = sent.call = CoordinatorCall(
            api_key=api_key,
            api_version=version,
            instance=instance,
            client_id="app",
            client_host="127.0.0.1",
            body=body.encode(),
            partition=partition,
            deadline_ms=deadline_ms,
            reply=lambda error, answer: sent.answers.append((error, answer)),
        )
        calls = self.calls
        if not calls.admits(call):
            return sent
        if api_key == PEEK:
            calls.at_once(call, _peek)
        elif api_key == ADD:
            calls.one_key(call, _add)
        elif api_key == WAIT:
            calls.one_key(call, _wait)
        elif api_key == NAMES:
            calls.all_shards(call, _names)
        elif api_key == NAMES_IN_STEPS:
            calls.all_shards_in_steps(call, _names_in_steps, self.turns.append)
        else:
            calls.many_keys(call, _sum, writes=False)
        return sent

    async def ask(self, api_key: int, body: str, *, partition: int = 0) -> int | str:
        """Submit and wait for the answer."""
        sent = self.submit(api_key, body, partition=partition)
        await until(lambda: sent.done)
        return sent.answer
