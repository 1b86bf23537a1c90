"""The wall clock of a leader jumps. What holds a lease counts on the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Consumer, TopicPartition

from tests.robustness.faults.fault import Fault, Scene

_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)
_SHARED_MEMORY = Path("/dev/shm")
_OFF_S_MAX = 60.0
_READ_S_MAX = 20.0


class ClockJump(Fault):
    """An hour forward, then an hour back, while the node leads."""

    id = "F26"
    title = "the wall clock of every node jumps by an hour"
    pause_s_max = 1.0
    # So that records tell what the nodes take for the time.
    topic_configs: ClassVar[Mapping[str, str]] = {"message.timestamp.type": "LogAppendTime"}

    def probe(self) -> str | None:
        if not any(Path(path).exists() for path in _LIBRARIES):
            return "no libfaketime; on Debian: apt-get install faketime"
        return None

    def environments(self, directory: Path) -> Mapping[str, Mapping[str, str]]:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / "clock"
        self._file.write_text("+0\n")
        library = next(path for path in _LIBRARIES if Path(path).exists())
        values = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        return {f"node-{node}": values for node in range(1, 4)}

    def inject(self, scene: Scene) -> None:
        before = {p.partition: p.leader_epoch for p in scene.view().values()}
        for jump in ("+3600", "-3600", "+0"):
            self._file.write_text(f"{jump}\n")
            time.sleep(3)
            scene.progress()
            seen_s = _time_of_last_record(scene) - time.time()
            scene.note(f"told {jump} s, records say {seen_s:+.0f} s")
            assert abs(seen_s - int(jump)) < _OFF_S_MAX, "the clock of the nodes did not jump"
        after = {p.partition: p.leader_epoch for p in scene.view().values()}
        assert after == before, "nobody lost its session"

    def heal(self, scene: Scene) -> None:
        self._file.write_text("+0\n")

    def clean_up(self) -> None:
        """The library leaves its shared memory behind when a process is killed."""
        for path in _SHARED_MEMORY.glob("*faketime_s*_*"):
            pid = path.name.rpartition("_")[2]
            if pid.isdigit() and not Path("/proc", pid).exists():
                path.unlink(missing_ok=True)


def _time_of_last_record(scene: Scene) -> float:
    """In seconds, as the leader of partition 0 stamped it."""
    consumer = Consumer({"bootstrap.servers": scene.cluster.bootstrap, "group.id": "clock"})
    try:
        partition = TopicPartition(scene.topic, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=_READ_S_MAX)
        consumer.assign([TopicPartition(scene.topic, 0, end - 1)])
        message = consumer.poll(_READ_S_MAX)
        assert message is not None and message.error() is None
        return float(message.timestamp()[1]) / 1000
    finally:
        consumer.close()
