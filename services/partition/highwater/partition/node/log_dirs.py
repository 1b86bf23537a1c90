"""Answers DescribeLogDirs and AlterLogDirs: which replicas are, and are to be, in a log directory.

See Kafka's ReplicaManager.describeLogDirs. An offline directory is listed with KAFKA_STORAGE_ERROR
and without replicas. A thread asks the file system for its space; if it does not answer in time,
the space is unknown. Only one such question is open per directory.

A replica that is in another directory begins to move (`replica_moves`), and is listed in both until
it has. For one that is not here yet a directory is remembered, as in Kafka's
LogManager.maybeUpdatePreferredLogDir.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode

DISK_TIMEOUT_S: Final = 2.0
"""Less than clients wait; a healthy disk answers at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpace:
    """Bytes of a volume; -1 if unknown, as in Kafka."""

    total_bytes: int
    usable_bytes: int


UNKNOWN_SPACE: Final = VolumeSpace(total_bytes=-1, usable_bytes=-1)


def space_of(path: str) -> VolumeSpace:
    """The space of the volume that has `path`. Raises OSError; blocks as long as the disk does."""
    found = os.statvfs(path)
    return VolumeSpace(
        total_bytes=found.f_blocks * found.f_frsize, usable_bytes=found.f_bavail * found.f_frsize
    )


class Moving(Protocol):
    """A move under way; see `LogMove`."""

    @property
    def target(self) -> "Target":
        """The directory to which the replica moves."""
        ...

    @property
    def copied_bytes(self) -> int:
        """Bytes of records in the copy."""
        ...

    @property
    def lag(self) -> int:
        """Records that the copy may lack."""
        ...


class Target(Protocol):
    """A log directory; see `HostedDirectory`."""

    index: int


class Moves(Protocol):
    """The node's moves; see `ReplicaMoves`."""

    def of(self, replica: PartitionReplica) -> Moving | None:
        """The move of a replica, if it is not completed."""
        ...

    def can_move(self, replica: PartitionReplica) -> bool:
        """False if the name of the topic is too long for that of a copy."""
        ...

    def move(
        self, replica: PartitionReplica, index: int
    ) -> "asyncio.Future[OSError | None] | None":
        """Begins a move, unless the replica is there, and ends one to another directory; done when
        a restart would go on with it alone, with a directory's error or None.
        """
        ...


class LogDirRequests:
    """On the node's loop, as long as the node."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        *,
        replicas: Callable[[InstanceId], Iterable[PartitionReplica]],
        is_online: Callable[[int], bool],
        find: Callable[[tuple[TopicId, int]], PartitionReplica | None],
        prefer: Callable[[TopicId, int, int], None],
        moves: Moves,
        space: Callable[[str], VolumeSpace] = space_of,
        disk_timeout_s: float = DISK_TIMEOUT_S,
    ) -> None:
        """`replicas` gives an instance's replicas on this node, `find` any replica here; `is_online`
        takes a directory's index. `prefer` remembers one for (topic id, partition).
        """
        self._paths = [str(path.absolute()) for path in log_dirs]
        self._replicas = replicas
        self._is_online = is_online
        self._find = find
        self._prefer = prefer
        self._moves = moves
        self._space = space
        self._disk_timeout_s = disk_timeout_s
        self._asking: dict[int, asyncio.Future[VolumeSpace]] = {}

    async def describe(self, request: pb.DescribeLogDirsRequest) -> pb.DescribeLogDirsResponse:
        """All directories in their order, each with the requested replicas that it holds."""
        spaces = await asyncio.gather(*(self._space_in(n) for n in range(len(self._paths))))
        asked = None if request.all_topics else _asked(request.topics)
        by_dir: dict[int, list[pb.LogDirReplica]] = {}
        for replica in self._replicas(InstanceId(request.instance)):
            partitions = None if asked is None else asked.get(replica.topic_id, frozenset())
            if partitions is None or replica.partition in partitions:
                by_dir.setdefault(replica.log_dir, []).append(_described(replica))
                move = self._moves.of(replica)
                if move is not None:
                    by_dir.setdefault(move.target.index, []).append(_future(replica, move))
        return pb.DescribeLogDirsResponse(
            dirs=[
                self._dir(number, space, by_dir.get(number, ()))
                for number, space in enumerate(spaces)
            ]
        )

    async def alter(self, request: pb.AlterLogDirsRequest) -> pb.AlterLogDirsResponse:
        """A code for each wish, found in the order of Kafka's ReplicaManager.alterReplicaLogDirs.

        Answered when a restart of the node would go on with the moves. A directory that does not
        take their copies is a KAFKA_STORAGE_ERROR; one that hangs REQUEST_TIMED_OUT, while the move
        still waits for it. Raises RpcError for a request whose paths do not fit its changes.
        """
        paths = request.paths
        if any(one.path >= len(paths) for one in request.changes):
            raise RpcError(StatusCode.INVALID_ARGUMENT, f"a change to none of {len(paths)} paths")
        asked = [self._altered(one, paths[one.path]) for one in request.changes]
        begun = [one for one in asked if not isinstance(one, ErrorCode)]
        if begun:
            await asyncio.wait(begun, timeout=self._disk_timeout_s)
        return pb.AlterLogDirsResponse(error_codes=[_code(one) for one in asked])

    def _altered(
        self, change: pb.LogDirChange, path: str
    ) -> "ErrorCode | asyncio.Future[OSError | None]":
        if path not in self._paths:
            return ErrorCode.LOG_DIR_NOT_FOUND
        number = self._paths.index(path)
        if not self._is_online(number):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not change.topic_id:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic_id = TopicId(change.topic_id)
        replica = self._find((topic_id, change.partition))
        if replica is None:
            self._prefer(topic_id, change.partition, number)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if replica.failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self._moves.can_move(replica):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return self._moves.move(replica, number) or ErrorCode.NONE

    def _dir(
        self, number: int, space: VolumeSpace | None, replicas: Sequence[pb.LogDirReplica]
    ) -> pb.LogDirDescription:
        if space is None or not self._is_online(number):
            return pb.LogDirDescription(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR,
                path=self._paths[number],
                total_bytes=-1,
                usable_bytes=-1,
            )
        return pb.LogDirDescription(
            path=self._paths[number],
            total_bytes=space.total_bytes,
            usable_bytes=space.usable_bytes,
            replicas=replicas,
        )

    async def _space_in(self, number: int) -> VolumeSpace | None:
        """None if the directory cannot be read."""
        if not self._is_online(number):
            return None
        asking = self._asking.get(number)
        if asking is None:
            loop = asyncio.get_running_loop()
            asking = loop.run_in_executor(None, self._space, self._paths[number])
            self._asking[number] = asking
            asking.add_done_callback(lambda _: self._asking.pop(number))
        # A timeout must not cancel it: other requests share it, and its thread runs on anyway.
        done, _ = await asyncio.wait({asking}, timeout=self._disk_timeout_s)
        if not done:
            return UNKNOWN_SPACE
        return None if asking.exception() is not None else asking.result()


def _code(altered: "ErrorCode | asyncio.Future[OSError | None]") -> ErrorCode:
    if isinstance(altered, ErrorCode):
        return altered
    if not altered.done():
        return ErrorCode.REQUEST_TIMED_OUT
    refused = altered.cancelled() or altered.result() is not None  # Cancelled: the node stops.
    return ErrorCode.KAFKA_STORAGE_ERROR if refused else ErrorCode.NONE


def _asked(topics: Iterable[pb.LogDirTopic]) -> Mapping[bytes, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _described(replica: PartitionReplica) -> pb.LogDirReplica:
    return pb.LogDirReplica(
        topic_id=replica.topic_id,
        partition=replica.partition,
        size_bytes=replica.log.extent.size_bytes,
    )


def _future(replica: PartitionReplica, move: Moving) -> pb.LogDirReplica:
    return pb.LogDirReplica(
        topic_id=replica.topic_id,
        partition=replica.partition,
        size_bytes=move.copied_bytes,
        is_future=True,
        offset_lag=move.lag,
    )
