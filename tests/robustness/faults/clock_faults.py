"""Wall clocks jump and run fast; leases and sessions must follow the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.robustness.faults.fault import Fault, Scene
from tests.robustness.faults.history import number_in
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape

_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)
_SHARED_MEMORY = Path("/dev/shm")
_OFF_S_MAX = 60.0
_READ_S_MAX = 20.0
_RIGHT = "+0 x1"
_SLEW = 1.2
_SLEW_S = 10.0
_HOUR_MS = 3_600_000
_REPEATED = "-1"
_REPEATED_MS_MIN = 200
"""Of a second that is repeated, less the time between two records."""


class ClockJump(Fault):
    """An hour forward, an hour back, a leap second, then a clock that runs fast, for all processes
    but etcd's.

    No session and no active controller is lost. Retention goes by the jumped clock: a jump of an hour
    deletes no record that is kept for two hours, but deletes those kept for half an hour.
    """

    id = "F26"
    title = "the wall clocks of nodes, controllers and gateways jump, repeat a second, and run fast"
    pause_s_max = 1.0
    shape = Shape(settings={"partition": {"retention_check_interval_ms": "500"}})
    topic_configs: Mapping[str, str] = {
        # Records then show the nodes' clocks.
        "message.timestamp.type": "LogAppendTime",
        # Segments that retention could delete.
        "segment.ms": "2000",
        "retention.ms": str(2 * _HOUR_MS),
    }

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
        shape = self.shape
        return {
            **{f"node-{number}": values for number in range(1, shape.nodes + 1)},
            **{f"controller-{number}": values for number in range(1, shape.controllers + 1)},
            **{f"gateway-{number}": values for number in range(1, shape.gateways + 1)},
        }

    def inject(self, scene: Scene) -> None:
        short_lived = _topic_of_half_an_hour(scene)
        before = {p.partition: p.leader_epoch for p in scene.view().values()}
        active = scene.cluster.active_controller()
        scene.begun_s = time.monotonic()
        for jump in ("+3600", "-3600", "+0"):
            self._file.write_text(f"{jump}\n")
            time.sleep(3)
            scene.progress()
            seen_s = _ahead_s(scene)
            scene.note(f"told {jump} s, records say {seen_s:+.1f} s")
            assert abs(seen_s - int(jump)) < _OFF_S_MAX, "the clock of the nodes did not jump"
        self._leap(scene)
        self._run_fast(scene)
        after = {p.partition: p.leader_epoch for p in scene.view().values()}
        assert after == before, "nobody lost its session"
        assert scene.cluster.active_controller() == active, "nor its office"
        wait_until(
            lambda: _bounds(scene, short_lived, 0)[0] > 0,
            timeout_s=10,
            what="retention that goes by the clock",
        )

    def heal(self, scene: Scene) -> None:
        self._file.write_text(f"{_RIGHT}\n")

    def check(self, scene: Scene) -> None:
        """Retention had something that it could have deleted, and did not."""
        for partition in range(scene.workload.history.partitions):
            assert _bounds(scene, scene.topic, partition)[0] == 0
            for node in scene.cluster.node_ids:
                segments = sorted(scene.log_directory(node, partition).glob("*.log"))
                assert len(segments) > 1, "or this has shown nothing"
                assert int(segments[0].stem) == 0, f"node {node} begins at {segments[0].name}"

    def clean_up(self) -> None:
        """The library leaves its shared memory behind when a process is killed."""
        for path in _SHARED_MEMORY.glob("*faketime_s*_*"):
            pid = path.name.rpartition("_")[2]
            if pid.isdigit() and not Path("/proc", pid).exists():
                path.unlink(missing_ok=True)

    def _leap(self, scene: Scene) -> None:
        """A second is inserted: the clock goes back by one, and says the last one again."""
        _, first = _bounds(scene, scene.topic, 0)
        scene.progress()
        self._file.write_text(f"{_REPEATED}\n")
        scene.progress()
        stamps = _stamps(scene, first)
        back_ms = max(before - after for before, after in pairwise(stamps))
        scene.note(f"told a leap second, records go back by {back_ms} ms")
        assert _REPEATED_MS_MIN < back_ms <= 1000, "the clock of the nodes did not repeat a second"

    def _run_fast(self, scene: Scene) -> None:
        """The library shortens waits in the kernel by the same factor, so timers look early."""
        self._file.write_text(f"+0 x{_SLEW}\n")
        scene.progress()
        before_s = _ahead_s(scene)
        time.sleep(_SLEW_S)
        scene.progress()
        gained_s = _ahead_s(scene) - before_s
        scene.note(f"a clock {_SLEW} times as fast gained {gained_s:.1f} s in {_SLEW_S:.0f} s")
        assert gained_s > (_SLEW - 1) * _SLEW_S / 2, "the clock of the nodes did not run fast"
        self._file.write_text(f"{_RIGHT}\n")


def _topic_of_half_an_hour(scene: Scene) -> str:
    """A topic with a record in a closed segment; one that came an hour later closes it."""
    topic = make_replicated_topic(
        scene.cluster.bootstrap,
        "short-lived",
        partitions=1,
        configs={
            "message.timestamp.type": "LogAppendTime",
            "segment.ms": "1000",
            "retention.ms": str(_HOUR_MS // 2),
        },
    )
    producer = Producer({"bootstrap.servers": scene.cluster.bootstrap})
    for _ in range(2):
        producer.produce(topic, b"kept for half an hour")
        assert producer.flush(_READ_S_MAX) == 0
        time.sleep(1.5)
    return topic


def _bounds(scene: Scene, topic: str, partition: int) -> tuple[int, int]:
    """The offset at which a partition begins, and its high watermark."""
    consumer = Consumer({"bootstrap.servers": scene.cluster.bootstrap, "group.id": "clock"})
    try:
        place = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=_READ_S_MAX)
        return int(low), int(high)
    finally:
        consumer.close()


def _stamps(scene: Scene, first: int) -> list[int]:
    """When the records of partition 0 were appended, by its leader's clock, from an offset on."""
    _, end = _bounds(scene, scene.topic, 0)
    stamps: list[int] = []
    consumer = Consumer({"bootstrap.servers": scene.cluster.bootstrap, "group.id": "clock"})
    try:
        consumer.assign([TopicPartition(scene.topic, 0, first)])
        deadline_s = time.monotonic() + _READ_S_MAX
        while len(stamps) < end - first:
            assert time.monotonic() < deadline_s, f"only {len(stamps)} of {end - first} records"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                stamps.append(message.timestamp()[1])
    finally:
        consumer.close()
    return stamps


def _ahead_s(scene: Scene) -> float:
    """How far the clock of partition 0's leader was ahead of ours when it stamped its last record.

    Less the time from sending to stamping, which is no longer than a pause may be.
    """
    consumer = Consumer({"bootstrap.servers": scene.cluster.bootstrap, "group.id": "clock"})
    try:
        partition = TopicPartition(scene.topic, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=_READ_S_MAX)
        consumer.assign([TopicPartition(scene.topic, 0, end - 1)])
        message = consumer.poll(_READ_S_MAX)
        assert message is not None and message.error() is None
    finally:
        consumer.close()
    sent_s = scene.workload.history.sent_s[0][number_in(0, message.value())]
    ours_s = sent_s + time.time() - time.monotonic()
    return float(message.timestamp()[1]) / 1000 - ours_s
