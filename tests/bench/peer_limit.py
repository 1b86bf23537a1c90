"""The limit: a C server of one thread that does as little as a Kafka broker can."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import c_program
from tests.bench.peer import Peer, first_line
from tests.support.measured_process import tail, wait_for_exit, wait_until_listening
from tests.support.process import free_port_block

LIMIT = "limit"
SOURCE = Path(__file__).with_name("limit")
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0


class LimitServer(Peer):
    """`tests/bench/limit` with its own data directory; shows what this machine could do.

    It checks CRCs, stamps offsets, writes segments and serves them. It has no replicas, groups,
    transactions or recovery, and looks neither into records nor at sequence numbers. Topics are
    created like any other broker's, but always with one replica, also for rows that need three; only segment.bytes, retention.bytes and file.delete.delay.ms
    have a meaning. `sanitized` compiles it with AddressSanitizer and
    UndefinedBehaviorSanitizer: for tests, many times slower.
    """

    has_transactions = False

    def __init__(self, *, options: Sequence[str] = (), sanitized: bool = False) -> None:
        self.name = LIMIT
        self._options = tuple(options)
        self._sanitized = sanitized
        self._root: Path | None = None
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The directories of partitions, `<topic>-<partition>`, are in it."""
        return self._home / "data"

    @property
    def log(self) -> Path:
        """Its stdout and stderr: why connections were closed."""
        return self._home / "stdout.log"

    def prepare(self) -> None:
        c_program.build(SOURCE, "sanitized" if self._sanitized else "all")
        self._root = Path(tempfile.mkdtemp(prefix="highwater-limit-"))
        self.data_dir.mkdir()
        self._port = free_port_block(1)
        self.bootstrap = f"127.0.0.1:{self._port}"

    def launch(self) -> None:
        executable = SOURCE / "build" / (f"{LIMIT}-sanitized" if self._sanitized else LIMIT)
        command = [str(executable), "--port", str(self._port), "--data-dir", str(self.data_dir)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_ready(self) -> None:
        assert self._process is not None
        try:
            wait_until_listening(self._process, self._port, START_TIMEOUT_S)
        except RuntimeError as error:
            raise RuntimeError(f"{self.name}: {error}\n{tail(self.log)}") from error

    def end(self) -> int | None:
        """Ends the process as `stop` does and returns its exit code; its data and log stay."""
        if self._process is None:
            return None
        wait_for_exit(self._process, STOP_TIMEOUT_S)
        return self._process.returncode

    def stop(self) -> None:
        self.end()
        self._process = None
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        replication: int = 1,
        deep: bool = False,
    ) -> None:
        # It never looks into records, and there is nobody to replicate them to.
        del deep, replication
        super().create_topic(name, partitions, configs)

    def pids(self) -> Sequence[int]:
        return [self._process.pid] if self._process else []

    def version(self) -> str:
        return f"tests/bench/limit, one node without replicas, one thread, {first_line(['cc', '--version'])}"

    @property
    def _home(self) -> Path:
        assert self._root is not None
        return self._root
