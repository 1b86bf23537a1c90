"""Moves replicas between the log directories of the node, as AlterReplicaLogDirs asks (KIP-113).

Each directory takes one replica at a time; the others wait, but are told as future replicas from
the request on, as in Kafka, and have a directory for their copy. A move that cannot be completed leaves the replica where it is, with a
warning. After a restart unfinished moves begin anew, as the copies that are found tell of them.
Used on the node's loop; `storage.moving` does the work.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from highwater.model.ids import TopicId
from highwater.model.time import Clock
from highwater.model.token_bucket import TokenBucket
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.directory.unfinished_moves import copy_path
from highwater.partition.storage.errors import MoveGivenUpError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.moving.log_move import LogMove, MoveSurroundings
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
"""The dynamic broker config: bytes per second of all moves of the node."""
UNLIMITED: Final = 2**63 - 1
_TOKEN_BYTES: Final = 16
_CANCELLED: Final = "the request was taken back"

Key = tuple[TopicId, int]

_T = TypeVar("_T")


class MoveStats:
    """Counted since the start."""

    def __init__(self) -> None:
        self.completed = 0
        self.given_up = 0
        """Without those that were cancelled by another request."""
        self.copied_bytes = 0
        """Of completed moves."""


class ReplicaMoves:
    """See the module."""

    def __init__(
        self,
        manager: LogManager,
        *,
        find: Callable[[Key], PartitionReplica | None],
        clock: Clock,
        log: Logger,
    ) -> None:
        """`find` gives a replica that is here now."""
        self._manager = manager
        self._find = find
        self._tasks: TaskOwner | None = None
        self._clock = clock
        self._log = log
        self._moves: dict[Key, LogMove] = {}
        self._waiting: dict[int, deque[tuple[Key, LogMove]]] = {}
        """By the directory's index, while one of its moves is under way."""
        self._discards: dict[Key, asyncio.Task[OSError | None]] = {}
        """By replica, until its cancelled moves have left nothing that a start would go on with."""
        self._threads: dict[int, ThreadPoolExecutor] = {}
        self._pace = TokenBucket()
        self.stats = MoveStats()

    def start(self, tasks: TaskOwner) -> None:
        """`tasks` runs the moves; before the first of them."""
        self._tasks = tasks

    def __len__(self) -> int:
        """How many moves are under way, or wait."""
        return len(self._moves)

    def set_rate(self, bytes_per_s: int) -> None:
        """Sets the limit of `RATE`."""
        rate = None if bytes_per_s >= UNLIMITED else bytes_per_s
        self._pace.set_rate(self._clock.monotonic_ms(), rate)

    def of(self, replica: PartitionReplica) -> LogMove | None:
        """The move of a replica that is not completed yet."""
        move = self._moves.get(_key(replica))
        return move if move is not None and move.log is replica.log else None

    def can_move(self, replica: PartitionReplica) -> bool:
        """False if the name of the topic is too long for that of a copy."""
        name = Path(replica.log.directory).name
        return copy_path("", name, "0" * 2 * _TOKEN_BYTES) is not None

    def move(
        self, replica: PartitionReplica, index: int
    ) -> "asyncio.Future[OSError | None] | None":
        """Begins to move a replica to a directory, and cancels a move to another one. If the
        replica is in that directory, there is nothing else to do.

        What is returned is done when a restart would go on with the move, also if it has to wait for
        its turn, and with no other one; the result is the error of a directory, or None.
        """
        key, present = _key(replica), self.of(replica)
        if present is not None:
            if present.target.index == index:
                return present.begun
            self._cancel(key, present)
        cancelled = self._discards.get(key)
        if replica.log_dir == index:
            return cancelled
        move = self._begin(replica, index, os.urandom(_TOKEN_BYTES).hex())
        if cancelled is not None:
            move.begun = self._start(_both(cancelled, move.begun), "log-moves-begun")
        return move.begun

    def go_on(self, replicas: Iterable[PartitionReplica]) -> None:
        """Begins the moves again that an earlier process has not completed; after the first image,
        which says what replicas are here.
        """
        begun = self._manager.unfinished.begun
        for replica in replicas if begun else ():
            found = begun.pop(Path(replica.log.directory).name, None)
            if found is not None and not replica.failed and replica.log_dir != found[0]:
                self._begin(replica, *found)
        for name, (index, token) in begun.items():
            hosted = self._manager.dirs[index]
            path = copy_path(hosted.directory.path, name, token)
            if path is not None and hosted.failure is None:
                hosted.delete_later([path], 0)  # Its replica is not here any more.
        begun.clear()

    def close(self) -> None:
        """Ends the threads, once their present work is done. Copies stay for the next start."""
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)

    def _cancel(self, key: Key, move: LogMove) -> None:
        """Ends a move. It loses its copy behind the present piece of work: a start must not go on with it."""
        move.cancel(_CANCELLED)
        del self._moves[key]
        waiting = self._waiting.get(move.target.index, deque())
        if (key, move) in waiting:
            waiting.remove((key, move))
        work = self._cancelled(move, self._discards.get(key))
        task = self._discards[key] = self._start(work, "log-moves-cancelled")
        task.add_done_callback(partial(self._discarded, key))

    async def _cancelled(
        self, move: LogMove, earlier: "asyncio.Task[OSError | None] | None"
    ) -> OSError | None:
        error = await self._discard(move, _told(move))
        return error if earlier is None else await earlier or error

    def _discarded(self, key: Key, task: "asyncio.Task[OSError | None]") -> None:
        if self._discards.get(key) is task:
            del self._discards[key]

    def _begin(self, replica: PartitionReplica, index: int, token: str) -> LogMove:
        key, log = _key(replica), replica.log
        thread = self._threads.get(index)
        if thread is None:
            thread = self._threads[index] = ThreadPoolExecutor(1, f"log-moves-{index}")
        move = self._moves[key] = LogMove(
            log,
            self._manager.dirs[index],
            token=token,
            surroundings=MoveSurroundings(
                manager=self._manager, executor=thread, pace=self._pace, clock=self._clock
            ),
            on_moved=partial(self._moved, key, log),
            on_released=partial(self._released, key, log),
        )
        waiting = self._waiting.get(index)
        if waiting is not None:
            waiting.append((key, move))
            return move
        self._waiting[index] = deque([(key, move)])
        self._start(self._run(index), f"log-moves-{index}")
        return move

    def _start(self, work: Coroutine[Any, Any, _T], name: str) -> "asyncio.Task[_T]":
        assert self._tasks is not None, "`start` comes first"
        return self._tasks.start(work, name=name)

    async def _run(self, index: int) -> None:
        """Carries out the moves to one directory, until none waits."""
        waiting = self._waiting[index]
        try:
            while waiting:
                await self._carry_out(*waiting.popleft())
        finally:
            del self._waiting[index]

    async def _carry_out(self, key: Key, move: LogMove) -> None:
        told = _told(move)
        self._log.info("replica_moves", **told)
        try:
            await move.run()
        except MoveGivenUpError as error:
            self._forget(key, move)
            if move.why_not != _CANCELLED:
                self.stats.given_up += 1
                self._log.warning("replica_not_moved", **told, error=str(error))
            await self._discard(move, told)
        except Exception:  # noqa: BLE001 - a bug here must not end the node; it is logged.
            self._forget(key, move)
            self.stats.given_up += 1
            self._log.exception("replica_not_moved", **told)
            await self._discard(move, told)
        else:
            self._forget(key, move)
            self.stats.completed += 1
            self.stats.copied_bytes += move.copied_bytes
            self._log.info("replica_moved", **told, held_ms=move.held_ms)

    async def _discard(self, move: LogMove, told: dict[str, str]) -> OSError | None:
        if move.moved:
            return None
        try:
            await move.discard()
        except OSError as error:
            # The next start finds it, and begins the move again.
            self._log.warning("copy_not_removed", **told, error=str(error))
            return error
        return None

    def _forget(self, key: Key, move: LogMove) -> None:
        if self._moves.get(key) is move:
            del self._moves[key]

    def _moved(self, key: Key, log: PartitionLog, index: int) -> None:
        move = self._moves.get(key)
        if move is not None and move.log is log:
            del self._moves[key]
        replica = self._find(key)
        if replica is not None and replica.log is log:
            replica.log_moved(index)

    def _released(self, key: Key, log: PartitionLog) -> None:
        replica = self._find(key)
        if replica is not None and replica.log is log:
            replica.log_released()


async def _both(
    cancelled: Awaitable[OSError | None], begun: Awaitable[OSError | None]
) -> OSError | None:
    """Waits for both; the error of one of them."""
    error = await cancelled
    return await begun or error


def _told(move: LogMove) -> dict[str, str]:
    return {"log": Path(move.log.directory).name, "log_dir": move.target.directory.path}


def _key(replica: PartitionReplica) -> Key:
    return replica.topic_id, replica.partition
