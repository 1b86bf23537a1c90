"""A process has no file descriptors, or no threads, left."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from highwater.kafka.messages.api_versions import ApiVersionsRequest
from tests.robustness.faults.fault import Fault, Scene
from tests.support.process import wait_until
from tests.support.wire import ConnectionEnded, RawConnection, only

_ASK_S_MAX = 20.0
_REFUSED_S_MAX = 1.0
"""How long a client waits for service."""
_API_VERSIONS_VERSION = 2


class FewDescriptors(Fault):
    """Takes descriptors from a process; `heal` gives them back."""

    _process = ""
    _limits = (0, 0)

    def limit(self, scene: Scene, name: str, *, free: int) -> None:
        """Allows so many descriptors more than are open now; open ones stay open."""
        self._process = name
        pid = scene.cluster.process(name).pid
        used = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        limit = 0
        while free or limit in used:
            # The kernel gives the lowest number that is not used, and none from the limit on.
            free -= limit not in used
            limit += 1
        self._limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, self._limits[1]))
        scene.note(f"{name} has {len(used)} descriptors and may have no number from {limit} on")

    def lift(self, scene: Scene) -> None:
        """Also if the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            pid = scene.cluster.process(self._process).pid
            resource.prlimit(pid, resource.RLIMIT_NOFILE, self._limits)


class FewFiles(FewDescriptors):
    """A leader cannot open files: it serves its open files, until it needs a new segment.

    Then its log directory fails, others lead, and no record is lost; the directory comes back at the
    next start.
    """

    id = "F31"
    title = "no file descriptors left in a leader"
    complaints = (
        "Too many open files",
        "log_dir_failed",
        "log_dir_not_closed",
        "log_dirs_failed",
        "replica_failed",
        "every log directory",
    )

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        name = f"node-{scene.victim}"
        self.limit(scene, name, free=0)
        scene.progress(count=50)
        process = scene.cluster.process(name)
        assert not process.lines_with("Too many open files"), "nothing was to be opened yet"
        scene.begun_s = time.monotonic()
        _set_segment_ms(scene, "500")
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"others lead {took_s:.2f} s after segments had to be rolled")
        wait_until(
            lambda: bool(process.lines_with("Too many open files")),
            timeout_s=10,
            what="a complaint of the node",
        )
        scene.progress()

    def heal(self, scene: Scene) -> None:
        _set_segment_ms(scene, None)
        self.lift(scene)
        scene.cluster.kill_node(scene.victim)
        scene.cluster.restart_node(scene.victim)


class FewConnections(FewDescriptors):
    """A gateway cannot accept: connected clients are served, others when descriptors are free again.

    The loop accepts and closes their connections, so that these clients notice it at once.
    """

    id = "F31-gateway"
    title = "no file descriptors left in a gateway"
    pause_s_max = 1.0
    complaints = ("out_of_descriptors",)

    _FREE = 9
    _CLIENTS = 40

    def inject(self, scene: Scene) -> None:
        self.limit(scene, "gateway-1", free=self._FREE)
        with contextlib.ExitStack() as clients:
            served = []
            for _ in range(self._CLIENTS):
                client = _connected(scene, clients)
                if client is not None:
                    served.append(client)
            scene.note(f"{len(served)} of {self._CLIENTS} new clients were served")
            assert 0 < len(served) <= self._FREE
            scene.progress(count=100)
            for client in served:
                _ask(client)
            process = scene.cluster.process("gateway-1")
            wait_until(
                lambda: bool(process.lines_with("out_of_descriptors")),
                timeout_s=10,
                what="a complaint of the gateway",
            )
            assert _connected(scene, clients) is None, "no descriptor has come free"
            self.lift(scene)
            # The others are still there, so these need descriptors of their own.
            for _ in range(self._CLIENTS):
                assert _connected(scene, clients) is not None, "there is room again"
        scene.progress()

    def heal(self, scene: Scene) -> None:
        """The limit has been lifted, and the fault's own clients have disconnected."""


class FewThreads(Fault):
    """A leader cannot start threads: it goes on with those that it has, also when other nodes die.

    RLIMIT_NPROC does not bind root, so a cgroup counts. Another node is killed and comes back, so
    that the leader has streams to end and to open.
    """

    id = "F31-threads"
    title = "no threads left in a leader"
    complaints = ("can't start new thread",)

    _ROOT = Path("/sys/fs/cgroup/pids")

    def __init__(self) -> None:
        self._group = self._ROOT / f"highwater-test-{os.getpid()}"

    def probe(self) -> str | None:
        if os.geteuid() != 0:
            return "cgroups need root"
        if not (self._ROOT / "cgroup.procs").exists():
            return "no pids cgroup of version 1"
        return None

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        process = scene.cluster.process(f"node-{scene.victim}")
        self._group.mkdir(exist_ok=True)
        (self._group / "cgroup.procs").write_text(str(process.pid))
        threads = int((self._group / "pids.current").read_text())
        (self._group / "pids.max").write_text(str(threads))
        scene.progress(count=50)
        other = scene.chance.choice(scene.others(scene.victim))
        scene.cluster.kill_node(other)
        scene.wait_led_by_others(other)
        scene.progress()
        scene.cluster.restart_node(other)
        scene.wait_whole()
        refused = int((self._group / "pids.events").read_text().split()[1])
        scene.note(
            f"node {scene.victim} has {threads} threads and was refused {refused} more "
            f"while node {other} was killed and came back"
        )
        assert process.running
        scene.progress()

    def heal(self, scene: Scene) -> None:
        self._release()

    def clean_up(self) -> None:
        if self._group.exists():
            self._release()
            self._group.rmdir()

    def _release(self) -> None:
        """Moves the node back to its former cgroup, without a limit."""
        (self._group / "pids.max").write_text("max")
        for pid in (self._group / "cgroup.procs").read_text().split():
            (self._ROOT / "cgroup.procs").write_text(pid)


def _connected(scene: Scene, clients: contextlib.ExitStack) -> RawConnection | None:
    """A client of the first gateway that has been answered; None if it was not served."""
    host, _, port = scene.cluster.bootstrap.rpartition(":")
    try:
        client = RawConnection(host, int(port), timeout_s=_REFUSED_S_MAX)
    except OSError:
        return None
    clients.enter_context(client)
    try:
        _ask(client)
    except (ConnectionEnded, OSError):
        return None
    return client


def _ask(client: RawConnection) -> None:
    reply = client.ask(ApiVersionsRequest(), _API_VERSIONS_VERSION)
    assert reply.error_code == 0


def _set_segment_ms(scene: Scene, value: str | None) -> None:
    """Sets the config; None restores the default."""
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap})
    entry = ConfigEntry(
        "segment.ms",
        value or "",
        incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
    )
    config = ConfigResource(ResourceType.TOPIC, scene.topic, incremental_configs=[entry])
    futures = admin.incremental_alter_configs([config], request_timeout=_ASK_S_MAX)
    only(list(futures.values())).result(_ASK_S_MAX)
