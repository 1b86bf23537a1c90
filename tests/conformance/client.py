"""The interface through which scenarios use every Kafka client."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tests.conformance.messages import Message, Stored

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = ("0", "1", "all")

BEGINNING: Final = -2
"""A start for `Client.consume`; other values are timestamps in ms."""

CLIENT_TIMEOUT_S: Final = 45.0
"""How long a client may take for one call of these tests, including rebalances."""

_POLL_S = 0.1


class Member(Protocol):
    """A consumer of a group that polls on its own until it is closed."""

    commits_by_itself: bool
    """True: it commits all returned records, at the latest on close. False: only in `commit`."""

    def assigned(self) -> frozenset[int]:
        """The partitions of the topic that are assigned to it now."""

    def received(self) -> list[Stored]:
        """All records that it has read so far."""

    def commit(self) -> None:
        """Commits the records read so far; returns when the broker has confirmed."""

    def close(self) -> None:
        """Leaves the group. May be called twice."""


class Client(Protocol):
    """One Kafka client, used through its own public interface only."""

    name: str
    writes: frozenset[str]
    """The kinds of records it can write: see `tests.conformance.messages.EVERYTHING`."""
    picks_partition: bool
    """Whether `produce` can choose the partition."""

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int | None = None,
        codec: str = "none",
        acks: str = "all",
    ) -> None:
        """Sends the messages in order and returns when the client says they are delivered."""

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        """Reads `count` records of all partitions without a group. Raises TimeoutError."""

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        """Starts a member of the topic; without a committed offset, it reads from the beginning."""


class Poller(Protocol):
    """A blocking consumer, as `PollingMember` uses it in its thread."""

    def poll(self, timeout_s: float) -> list[Stored]: ...

    def assignment(self) -> frozenset[int]: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class PollingMember:
    """Implements `Member` for clients with a blocking poll: one thread owns the consumer.

    Lifecycle: the thread starts with the object and ends with `close`. An error in the thread is
    raised by the next call.
    """

    commits_by_itself = False

    def __init__(self, open_poller: Callable[[], Poller]) -> None:
        self._open_poller = open_poller
        self._received: list[Stored] = []
        self._assigned: frozenset[int] = frozenset()
        self._commits: queue.Queue[threading.Event] = queue.Queue(maxsize=16)
        self._closing = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="group member", daemon=True)
        self._thread.start()

    def assigned(self) -> frozenset[int]:
        self._raise_error()
        return self._assigned

    def received(self) -> list[Stored]:
        self._raise_error()
        return list(self._received)

    def commit(self) -> None:
        done = threading.Event()
        self._commits.put(done, timeout=CLIENT_TIMEOUT_S)
        if not done.wait(CLIENT_TIMEOUT_S):
            self._raise_error()
            raise TimeoutError("the commit did not return")
        self._raise_error()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(CLIENT_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError("the consumer did not close")
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise RuntimeError("the group member failed") from self._error

    def _run(self) -> None:
        try:
            poller = self._open_poller()
            try:
                while not self._closing.is_set():
                    self._received += poller.poll(_POLL_S)
                    self._assigned = poller.assignment()
                    self._serve_commits(poller)
            finally:
                poller.close()
        except BaseException as error:  # noqa: BLE001  # noqa: BLE001  # The test raises any error.
            self._error = error

    def _serve_commits(self, poller: Poller) -> None:
        while not self._commits.empty():
            done = self._commits.get_nowait()
            try:
                poller.commit()
            finally:
                done.set()


def collect(
    poll: Callable[[float], list[Stored]], count: int, *, timeout_s: float = CLIENT_TIMEOUT_S
) -> list[Stored]:
    """Polls for `count` records. Raises TimeoutError, and AssertionError if more came."""
    stored: list[Stored] = []
    deadline = time.monotonic() + timeout_s
    while len(stored) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(stored)} of {count} records in {timeout_s:.0f} s")
        stored += poll(_POLL_S)
    assert len(stored) == count, f"{len(stored)} records instead of {count}"
    return stored
