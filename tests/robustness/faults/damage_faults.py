"""Damaged files: a node starts and finds files that differ from those it wrote.

Only one replica is damaged, while another one leads: acknowledged records are on at least two nodes,
so no record may be lost, and the damaged node must fetch what it lacks. The kernel stays the same, so
the node reads its logs from their last index entries on (`recovery/recovery.py`); `power_faults` has
power cuts. Bit rot happens while the node runs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from highwater.hop.unix_socket import SOCKET_FILE
from highwater.kafka.records.batch import LENGTH_OVERHEAD
from tests.robustness.faults.fault import FAILOVER_S_MAX, Fault, Scene
from tests.robustness.faults.history import History
from tests.robustness.faults.log_reading import read_log
from tests.support.partition_logs import headers, segments
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import empty_directory

Who = Literal["leader", "follower"]

_READ_S_MAX = 60.0
_FOUND_S_MAX = 60.0
_CLOSED_S_MAX = 30.0
_LENGTH_AT = 8
"""Of a batch; its highest byte: the batch then seems to go on behind its segment."""
_MAGIC_AT = 16
_SMALL_SEGMENTS = {"segment.ms": "1500", "index.interval.bytes": "64"}
"""So that there are closed segments to damage, and indexes with something in them."""


@dataclass
class DamagedNode(Fault):
    """A node is killed, its files are damaged, and it starts again.

    In the end it leads every partition that it may, and the log is read from it.
    """

    who: Who = "follower"
    topic_configs: dict[str, str] = field(default_factory=lambda: dict(_SMALL_SEGMENTS))

    def inject(self, scene: Scene) -> None:
        scene.progress(count=400)
        scene.victim = scene.leader() if self.who == "leader" else scene.follower()
        _wait_for_closed_segments(scene, range(scene.workload.history.partitions))
        scene.cluster.kill_node(scene.victim)
        took_s = scene.wait_led_by_others(scene.victim)
        told = [
            self.damage(scene.log_directory(scene.victim, partition))
            for partition in range(scene.workload.history.partitions)
        ]
        scene.note(f"{self.who} {scene.victim} killed ({took_s:.2f} s); {', '.join(told)}")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)

    def check(self, scene: Scene) -> None:
        """The damaged node leads, and every record is read from it."""
        others = scene.others(scene.victim)
        scene.cluster.kill_nodes(others)
        scene.wait(
            lambda parts: all(p.leader == scene.victim for p in parts.values()),
            30,
            "the node that was damaged leads",
        )
        was = scene.workload.history
        again = History(was.partitions)
        again.acknowledged = was.acknowledged
        read_log(scene.cluster.bootstrap, scene.topic, again, timeout_s=_READ_S_MAX)
        assert again.stored == was.stored
        for node in others:
            scene.cluster.start_node(node)
        for node in others:
            scene.cluster.wait_node(node)

    def damage(self, directory: Path) -> str:
        """Damages one partition's files; returns a description."""
        raise NotImplementedError


@dataclass
class TornTail(DamagedNode):
    """The last batch is cut off, as by an interrupted write."""

    id = "F22-torn"
    title = "the last batch of a log is cut"

    def damage(self, directory: Path) -> str:
        last = _last_with_records(directory)
        size = last.stat().st_size
        with last.open("r+b") as file:
            file.truncate(size - 7)
        return f"{last.name[-9:]} cut by 7 of {size} bytes"


@dataclass
class GarbageTail(DamagedNode):
    """The end of the log is overwritten, and goes on with garbage."""

    id = "F22-garbage"
    title = "the end of a log is garbage"

    def damage(self, directory: Path) -> str:
        last = _last_with_records(directory)
        size = last.stat().st_size
        with last.open("r+b") as file:
            file.seek(max(0, size - 40))
            file.write(b"\xa5" * 400)
        return "40 bytes of the end overwritten, 360 added"


@dataclass
class MissingSegment(DamagedNode):
    """The last segment and its indexes are missing, as if they had never been written."""

    id = "F22-missing"
    title = "the last segment of a log is missing"

    def damage(self, directory: Path) -> str:
        last = _last_with_records(directory)
        size = last.stat().st_size
        for path in directory.glob(f"{last.stem}.*"):
            path.unlink()
        return f"a segment of {size} bytes removed"


@dataclass
class BitRot(Fault):
    """A bit of a closed segment changes on the disk while the node runs, in every partition that
    it leads, or follows in: in a record, or in the header of a batch.

    The scrubber finds it, and the damaged range is put back from another replica: in a new file.
    """

    how: Literal["record", "length", "magic"] = "record"
    who: Who = "follower"
    topic_configs: dict[str, str] = field(default_factory=lambda: dict(_SMALL_SEGMENTS))

    id = "F23"
    title = "a bit of a closed segment changes"
    complaints = ("log_damaged",)
    shape = Shape(settings={"partition": {"log_scrub_interval_ms": "1000"}})

    def inject(self, scene: Scene) -> None:
        scene.progress(count=400)
        scene.victim = scene.leader() if self.who == "leader" else scene.follower()
        self._damaged = [
            number
            for number, part in scene.view().items()
            if (part.leader == scene.victim) == (self.who == "leader")
        ]
        _wait_for_closed_segments(scene, self._damaged)
        self._files = {
            number: _flip_a_bit(scene.log_directory(scene.victim, number), self.how, scene)
            for number in self._damaged
        }
        begun = time.monotonic()
        wait_until(
            lambda: all(_was_replaced(path, inode) for path, inode in self._files.values()),
            timeout_s=_FOUND_S_MAX,
            what="the damaged segments to be written anew",
        )
        scene.note(
            f"a bit of a {self.how} in {len(self._files)} logs of {self.who} {scene.victim}, gone after "
            f"{time.monotonic() - begun:.1f} s"
        )

    def heal(self, scene: Scene) -> None:
        """It heals by itself."""

    def check(self, scene: Scene) -> None:
        told = [line for line in scene.cluster.complaints() if "log_damaged" in line]
        assert len(told) >= len(self._damaged), told


@dataclass
class DamagedIndexes(DamagedNode):
    """Indexes are missing, garbage, cut, or another segment's."""

    id = "F24"
    title = "indexes are damaged, missing, or of another segment"

    def damage(self, directory: Path) -> str:
        ways: list[Callable[[Path], object]] = [
            lambda path: path.unlink(),
            lambda path: path.write_bytes(b"\xff" * 4096),
            lambda path: path.write_bytes(path.read_bytes()[:-3]),
            lambda path: path.write_bytes(_other(path).read_bytes()),
            lambda path: path.write_bytes(b""),
        ]
        indexes = sorted((*directory.glob("*.index"), *directory.glob("*.timeindex")))
        for number, path in enumerate(indexes):
            ways[number % len(ways)](path)
        return f"{len(indexes)} indexes damaged"


@dataclass
class DamagedEpochs(DamagedNode):
    """The leader epoch checkpoint is missing, empty, garbage, or says too much."""

    how: Literal["missing", "empty", "garbage", "too high"] = "missing"

    id = "F25-epochs"
    title = "the leader epoch checkpoint is lost or damaged"

    def damage(self, directory: Path) -> str:
        path = directory / "leader-epoch-checkpoint"
        match self.how:
            case "missing":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
            case "garbage":
                path.write_bytes(b"\x00\xff no checkpoint\n")
            case "too high":
                path.write_text("0\n2\n0 0\n90 1\n")
        return f"epochs {self.how}"


@dataclass
class DamagedHighWatermark(DamagedNode):
    """The high watermark checkpoint has 0, or an offset after the log's end."""

    how: Literal["zero", "too high", "missing"] = "zero"

    id = "F25-hw"
    title = "the high watermark checkpoint is wrong"
    shape = Shape(settings={"partition": {"high_watermark_checkpoint_interval_ms": "500"}})

    def damage(self, directory: Path) -> str:
        path = directory.parent / "replication-offset-checkpoint"
        if self.how == "missing":
            path.unlink(missing_ok=True)
            return "no checkpoint"
        topic, _, partition = directory.name.rpartition("-")
        value = "0" if self.how == "zero" else "1000000000"
        lines = path.read_text().splitlines()
        entries = [line for line in lines[2:] if not line.startswith(f"{topic} {partition} ")]
        entries.append(f"{topic} {partition} {value}")
        path.write_text("\n".join(["0", str(len(entries)), *entries]) + "\n")
        return f"high watermark of {value}"


@dataclass
class EmptyDisk(DamagedNode):
    """A node comes back with an empty disk: it is in no ISR until it has fetched all records."""

    id = "F28"
    title = "a node comes back with an empty disk"
    pause_s_max = FAILOVER_S_MAX

    def damage(self, directory: Path) -> str:
        return "kept until all are damaged"

    def heal(self, scene: Scene) -> None:
        cluster = scene.cluster
        empty_directory(cluster.data_dir(scene.victim))
        isr = {p.partition: p.isr for p in scene.view().values()}
        assert not any(scene.victim in nodes for nodes in isr.values())
        super().heal(scene)


@dataclass
class OthersDisk(DamagedNode):
    """A node comes back with another node's directory: it must not start on it."""

    id = "F28-foreign"
    title = "a node comes back with another node's disk"

    def damage(self, directory: Path) -> str:
        return "kept until all are damaged"

    def heal(self, scene: Scene) -> None:
        cluster = scene.cluster
        own = cluster.data_dir(scene.victim)
        kept = own.with_name(f"{own.name}-kept")
        own.rename(kept)
        other = cluster.data_dir(scene.others(scene.victim)[0])
        shutil.copytree(other, own, ignore=shutil.ignore_patterns(SOCKET_FILE))
        process = cluster.process(f"node-{scene.victim}")
        cluster.start_node(scene.victim)
        code = process.wait(timeout_s=30)
        scene.note(f"with another's directory the node ends with {code}")
        assert code == 2, process.log_tail()
        shutil.rmtree(own)
        kept.rename(own)
        super().heal(scene)


def _wait_for_closed_segments(scene: Scene, numbers: Iterable[int]) -> None:
    """In the victim's logs of these partitions: a fast load has its records before segment.ms."""
    directories = [scene.log_directory(scene.victim, number) for number in numbers]
    wait_until(
        lambda: all(_closed(directory) for directory in directories),
        timeout_s=_CLOSED_S_MAX,
        what="a closed segment in each log",
    )


def _closed(directory: Path) -> list[Path]:
    """The closed segments with records, in order of their offsets."""
    return [path for path in segments(directory)[:-1] if path.stat().st_size > 0]


def _last_with_records(directory: Path) -> Path:
    """The last segment that is not empty."""
    return next(path for path in reversed(segments(directory)) if path.stat().st_size > 0)


def _other(path: Path) -> Path:
    """The same kind of file of another segment; itself if there is only one."""
    return next((p for p in sorted(path.parent.glob(f"*{path.suffix}")) if p != path), path)


def _flip_a_bit(directory: Path, how: str, scene: Scene) -> tuple[Path, int]:
    """Flips a bit in the oldest closed segment with records; returns the file and its inode.

    It spares leader epochs: no checksum covers them, so the damage could not be noticed.
    """
    path = _closed(directory)[0]
    data = path.read_bytes()
    if how == "record":
        position = len(data) - 1
    else:
        batches = headers(data)
        before = batches[: scene.chance.randrange(len(batches))]
        position = sum(header.batch_length + LENGTH_OVERHEAD for header in before)
        position += _MAGIC_AT if how == "magic" else _LENGTH_AT
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([data[position] ^ 1 << scene.chance.randrange(8)]))
    return path, path.stat().st_ino


def _was_replaced(path: Path, inode: int) -> bool:
    try:
        return path.stat().st_ino != inode
    except FileNotFoundError:
        return True
