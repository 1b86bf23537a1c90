"""Replicas move while they lead and follow; requests, cancellations and restarts."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.replica_moves import UNLIMITED, ReplicaMoves
from highwater.partition.storage.errors import LogDirFailure, StorageError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.moving import log_copy, log_move
from highwater.partition.storage.moving.log_copy import LogCopy
from highwater.runtime.logging import LogSettings, make_logger
from highwater.runtime.tasks import TaskOwner
from tests.support.log_batches import make_batch, read_all
from tests.support.moving_node import MovingNode, fill, moved_topic
from tests.unit.hop.sinks import Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, ask
from tests.unit.partition.data_plane.roles import NODE, follow, lead
from tests.unit.partition.data_plane.test_replica_role import Port

pytestmark = pytest.mark.timeout(60)


class Node:
    """Replicas in two directories, and their moves."""

    def __init__(self, *dirs: Path, filesystems: dict[Path, FileSystem] | None = None) -> None:
        self.disks = MovingNode(*dirs, filesystems=filesystems)
        self.stream = io.StringIO()
        self.errors: list[BaseException] = []
        self.tasks = TaskOwner(lambda _, error: self.errors.append(error))
        self.port = Port()
        loop = asyncio.get_running_loop()
        self.plane = DataPlane(loop.call_later, lambda _, error: self.errors.append(error))
        self.moves = ReplicaMoves(
            self.disks.manager,
            find=self.plane.replicas.get,
            clock=self.disks.clock,
            log=make_logger(LogSettings(format="json"), stream=self.stream),
        )
        self.moves.start(self.tasks)

    def add(self, name: str = "orders", number: int = 1, batches: int = 0) -> PartitionReplica:
        """A leader of a log with so many batches of two records."""
        topic = moved_topic(name, number)
        log, log_dir = self.disks.manager.open_log(topic, 0)
        fill(log, batches, value=b"v" * 100, epoch=0)
        replica = PartitionReplica(
            node=NODE,
            topic_id=topic.topic_id,
            topic_name=name,
            partition=0,
            log=log,
            log_dir=log_dir,
            policy=AppendPolicy(),
            clock=self.disks.clock,
            on_log_failure=self._log_failed,
            flush=self.disks.manager.flush,
            port=self.port,  # type: ignore[arg-type]
        )
        self.plane.replicas[topic.topic_id, 0] = replica
        lead(replica, EPOCH)
        return replica

    def _log_failed(self, replica: PartitionReplica, error: StorageError) -> None:
        assert isinstance(error, LogDirFailure)
        self.disks.manager.fail_dir(replica.log_dir, error)
        replica.fail()

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                assert self.errors == []
                await asyncio.sleep(0.001)

    async def ended(self) -> None:
        await self.until(lambda: not len(self.moves) and not len(self.tasks))

    async def close(self) -> None:
        await self.tasks.close(timeout_s=5)
        self.moves.close()
        self.disks.close()
        assert self.errors == []


@asynccontextmanager
async def running(
    *dirs: Path, filesystems: dict[Path, FileSystem] | None = None
) -> AsyncIterator[Node]:
    node = Node(*dirs, filesystems=filesystems)
    try:
        yield node
    finally:
        await node.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "PIECE_BYTES", 512)
    monkeypatch.setattr(log_move, "RETRY_S", 0.01)
    monkeypatch.setattr(log_move, "BUSY_S", 0.01)


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc"]


async def test_a_leader_moves_under_load_and_nobody_gets_an_error(dirs: list[Path]) -> None:
    async with running(*dirs[:2]) as node:
        replica = node.add(batches=100)
        sinks: list[Sink] = []
        seen: list[int] = []

        async def load() -> None:
            number = 0
            while True:
                sinks.append(Sink())
                batch = make_batch(producer_id=77, producer_epoch=0, base_sequence=number)
                number += 1
                asked = group_of(
                    batch, sink=sinks[-1], epoch=EPOCH, topic_id=replica.topic_id, acks=-1
                )
                node.plane.append([asked])
                if len(sinks) % 7 == 0:
                    offset = max(replica.high_watermark - 3, 0)
                    found = replica.fetch(
                        ask(offset, topic_id=replica.topic_id), 1 << 20, 0, first=True
                    )
                    assert found.error_code == 0
                    seen.append(found.next_offset)
                    if hasattr(found.records, "release"):
                        found.records.release()
                # The loop rests: the thread that copies, in many small pieces here, needs its turns.
                await asyncio.sleep(0.001)

        task = asyncio.get_running_loop().create_task(load())
        await node.until(lambda: len(sinks) > 50)
        for index in (1, 0, 1):
            node.moves.move(replica, index)
            move = node.moves.of(replica)
            assert move is not None
            assert move.target.index == index
            await node.until(lambda index=index: replica.log_dir == index)  # type: ignore[misc]
            assert node.moves.of(replica) is None
            await node.ended()
        before = len(sinks)
        await node.until(lambda: len(sinks) > before + 50)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()
        await node.until(lambda: all(sink.results for sink in sinks))
        assert {code for sink in sinks for code in sink.codes.values()} == {0}
        offsets = [sink.offsets[0] for sink in sinks]
        assert offsets == list(range(200, 200 + len(sinks)))
        assert seen == sorted(seen)
        assert replica.answers.stalled is None
        assert len(read_all(replica.log)) == 100 + len(sinks)
        assert node.disks.places() == [[], ["orders-0"]]
        moved = node.events("replica_moved")
        assert len(moved) == 3
        assert all(event["held_ms"] < 5000 for event in moved)
        assert (node.moves.stats.completed, node.moves.stats.given_up) == (3, 0)
        assert node.moves.stats.copied_bytes > 0


async def test_a_follower_asks_again_when_its_log_may_be_written(dirs: list[Path]) -> None:
    async with running(*dirs[:2]) as node:
        replica = node.add(batches=3)
        follow(replica, 2, EPOCH + 1)
        node.port.asked.clear()
        node.moves.move(replica, 1)
        await node.ended()
        assert replica.log_dir == 1
        assert node.port.asked == [("follow", 2, EPOCH + 1)]


async def test_a_replica_changes_its_role_while_its_log_is_held(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = LogCopy.finish
    sinks: list[Sink] = []
    async with running(*dirs[:2]) as node:
        replica = node.add(batches=3)

        def append(epoch: int) -> None:
            sinks.append(Sink())
            group = group_of(make_batch(), sink=sinks[-1], epoch=epoch, topic_id=replica.topic_id)
            node.plane.append([group])

        def change() -> None:
            append(EPOCH)
            follow(replica, 2, EPOCH + 1)
            lead(replica, EPOCH + 2)
            append(EPOCH + 2)

        def finishes(self: LogCopy, *args: Any, **options: Any) -> None:
            if not sinks:
                loop.call_soon_threadsafe(change)
            finish(self, *args, **options)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(LogCopy, "finish", finishes)
        node.moves.move(replica, 1)
        await node.ended()
        await node.until(lambda: all(sink.results for sink in sinks))
        assert replica.log_dir == 1
        first, second = sinks
        assert first.codes[0] != 0
        assert second.codes == {0: 0}
        assert second.offsets == {0: 6}
        assert replica.log.epochs.cache.latest == EPOCH + 2
        assert len(read_all(replica.log)) == 4


async def test_requests_replace_each_other(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(*dirs) as node:
        replica = node.add(batches=20)
        monkeypatch.setattr(log_move, "SWITCH_BYTES", -1)  # No move completes.
        node.moves.move(replica, 0)
        assert len(node.moves) == 0, "it is there already"
        node.moves.move(replica, 1)
        first = node.moves.of(replica)
        node.moves.move(replica, 1)
        assert node.moves.of(replica) is first
        await node.until(lambda: node.disks.places()[1] == ["orders-0.T-future"])
        node.moves.move(replica, 2)
        second = node.moves.of(replica)
        assert second is not None
        assert second is not first
        await node.until(lambda: node.disks.places() == [["orders-0"], [], ["orders-0.T-future"]])
        node.moves.move(replica, 0)
        assert node.moves.of(replica) is None
        await node.ended()
        assert node.disks.places() == [["orders-0"], [], []]
        monkeypatch.setattr(log_move, "SWITCH_BYTES", 1 << 20)
        node.moves.move(replica, 2)
        await node.ended()
        assert (replica.log_dir, node.moves.stats.given_up) == (2, 0)
        assert node.events("replica_not_moved") == []


async def test_moves_to_one_directory_take_turns(dirs: list[Path]) -> None:
    async with running(*dirs[:2]) as node:
        replicas = [node.add(f"t{number}", number, 5) for number in range(1, 5)]
        here = [replica for replica in replicas if replica.log_dir == 0]
        for replica in here:
            node.moves.move(replica, 1)
        assert len(node.moves) == len(here) == 2
        assert all(node.moves.of(replica) is not None for replica in here)
        await node.ended()
        assert {replica.log_dir for replica in replicas} == {1}


async def test_a_full_disk_is_a_warning_and_the_replica_works_on(dirs: list[Path]) -> None:
    files = FileSystem()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    async with running(*dirs[:2], filesystems={dirs[1]: files}) as node:
        replica = node.add(batches=20)
        files.pwritev = full
        node.moves.move(replica, 1)
        await node.ended()
        (event,) = node.events("replica_not_moved")
        assert (event["level"], event["log"]) == ("warning", "orders-0")
        assert "full" in event["error"]
        assert replica.log_dir == 0
        assert not replica.failed
        assert node.disks.failures == []
        sink = Sink()
        node.plane.append(
            [group_of(make_batch(), sink=sink, epoch=EPOCH, topic_id=replica.topic_id)]
        )
        assert sink.codes == {0: 0}
        assert (node.moves.stats.completed, node.moves.stats.given_up) == (0, 1)


async def test_a_bug_costs_one_move(dirs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError("a bug")

    async with running(*dirs[:2]) as node:
        replica = node.add(batches=3)
        monkeypatch.setattr(LogCopy, "sync", broken)
        node.moves.move(replica, 1)
        await node.ended()
        assert replica.log_dir == 0
        assert node.moves.stats.given_up == 1
        (event,) = node.events("replica_not_moved")
        assert event["level"] == "error"
        assert node.disks.places() == [["orders-0"], []]


async def test_moves_go_on_after_a_restart(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_move, "SWITCH_BYTES", -1)
    async with running(*dirs) as node:
        for number, name in enumerate(("kept", "gone"), start=1):
            node.moves.move(node.add(name, number, 20), 2)
        await node.until(lambda: node.disks.places("kept-0")[2] == ["kept-0.T-future"])
    (dirs[2] / f"gone-0.{'0' * 32}-future").mkdir()
    monkeypatch.setattr(log_move, "SWITCH_BYTES", 1 << 20)
    async with running(*dirs) as node:
        assert set(node.disks.manager.unfinished.begun) == {"kept-0", "gone-0"}
        replica = node.add("kept")
        node.moves.go_on(node.plane.replicas.values())
        await node.ended()
        assert replica.log_dir == 2
        assert len(read_all(replica.log)) == 20
        hosted = node.disks.manager.dirs[2]
        hosted.remover.remove_due()
        await node.until(lambda: node.disks.places("gone-0")[2] == [])
        node.moves.go_on(node.plane.replicas.values())
        assert len(node.moves) == 0


async def test_a_restart_goes_on_with_moves_that_wait_and_not_with_cancelled_ones(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_move, "SWITCH_BYTES", -1)  # No move completes: the others wait.
    async with running(*dirs) as node:
        replicas = [node.add(f"t{number}", number, 2) for number in range(1, 7)]
        moving = [replica for replica in replicas if replica.log_dir != 2]
        assert len(moving) == 4
        for replica in moving:
            begun = node.moves.move(replica, 2)
            assert begun is not None
            assert await begun is None
        assert node.moves.move(replica, 2) is begun
        gone = node.moves.move(replica, replica.log_dir)
        assert gone is not None, "it stays: that ends its move"
        assert await gone is None
        names = [f"{replica.topic_name}-0" for replica in moving]
        assert node.disks.places(names[-1])[2] == []
        assert all(node.disks.places(name)[2] for name in names[:-1])
    async with running(*dirs) as node:
        assert set(node.disks.manager.unfinished.begun) == set(names[:-1])


async def test_a_move_is_answered_when_a_restart_does_not_go_on_with_the_one_before(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_move, "SWITCH_BYTES", -1)  # No move completes.
    slow, busy, go_on = FileSystem(), threading.Event(), threading.Event()
    write = slow.pwritev

    def waits(*args: Any) -> int:
        busy.set()
        assert go_on.wait(30)
        return write(*args)

    async with running(*dirs, filesystems={dirs[1]: slow}) as node:
        replica = node.add(batches=20)
        monkeypatch.setattr(slow, "pwritev", waits)
        node.moves.move(replica, 1)
        await node.until(busy.is_set)
        answers = [node.moves.move(replica, 2), node.moves.move(replica, 2)]
        answers.append(node.moves.move(replica, 0))
        begun = [one for one in answers if one is not None]
        try:
            done, _ = await asyncio.wait(begun, timeout=0.2)
            assert not done, "a restart would find the copy in the first directory"
        finally:
            go_on.set()
        assert await asyncio.gather(*begun) == [None, None, None]
        assert node.disks.places() == [["orders-0"], [], []]
        await node.ended()
        assert (len(node.moves), node.moves.stats.given_up) == (0, 0)


async def test_a_directory_that_takes_no_copy_is_told(dirs: list[Path]) -> None:
    files = FileSystem()

    def full(_path: str) -> None:
        raise OSError(errno.ENOSPC, "full")

    async with running(*dirs[:2], filesystems={dirs[1]: files}) as node:
        replica = node.add()
        files.mkdir = full  # type: ignore[method-assign]
        begun = node.moves.move(replica, 1)
        assert begun is not None
        error = await begun
        assert error is not None
        assert error.errno == errno.ENOSPC
        await node.ended()
        assert (replica.log_dir, node.moves.stats.given_up) == (0, 1)


async def test_a_name_that_is_too_long_cannot_move(dirs: list[Path]) -> None:
    async with running(*dirs[:2]) as node:
        assert node.moves.can_move(node.add("t" * 213))
        assert not node.moves.can_move(node.add("t" * 214, 2))


async def test_the_rate_is_that_of_the_config(dirs: list[Path]) -> None:
    async with running(*dirs[:2]) as node:
        replica = node.add(batches=50)
        node.moves.set_rate(replica.log.extent.size_bytes)
        loop = asyncio.get_running_loop()
        began = loop.time()
        node.moves.move(replica, 1)
        await asyncio.sleep(0.2)
        assert len(node.moves) == 1
        await node.ended()
        assert loop.time() - began > 0.6
        node.moves.set_rate(UNLIMITED)
        node.moves.move(replica, 0)
        await node.ended()


async def test_an_unknown_replica_has_no_move(dirs: list[Path]) -> None:
    async with running(*dirs[:2]) as node:
        replica = node.add()
        assert node.moves.of(replica) is None
        del node.plane.replicas[replica.topic_id, 0]
        node.moves.move(replica, 1)
        await node.ended()
        # Nobody is told, but the log is where it was asked to be.
        assert node.disks.places() == [[], ["orders-0"]]
