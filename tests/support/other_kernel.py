"""Nodes with boot ids of their own, so that a node can seem to restart after a reboot.

Each node runs in a mount namespace of its own with a file in place of the kernel's boot id; a test
replaces the file while the node is down. Needs root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def missing() -> str | None:
    """Why boot ids cannot be replaced here, or None."""
    if os.geteuid() != 0:
        return "mount namespaces need root"
    if shutil.which("unshare") is None:
        return "no unshare on the path"
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"mount --bind /dev/null {_BOOT_ID}"],
        check=False,
        capture_output=True,
        timeout=10,
    )
    return None if tried.returncode == 0 else f"no boot id of ours: {tried.stderr.decode().strip()}"


class OtherKernel:
    """Implements `tests.support.replicated_cluster.NodeHosts`, on loopback."""

    outside = "127.0.0.1"

    def __init__(self) -> None:
        self._directory = Path()

    def place(self, directory: Path) -> None:
        """Sets the directory of the files with boot ids; to be called before `start`."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    def start(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            self.reboot(node)

    def stop(self) -> None:
        pass

    def reboot(self, node: int) -> None:
        """Gives the next process of the node another boot id."""
        self._file(node).write_text(f"{uuid.uuid4()}\n")

    def address(self, node: int) -> str:
        return self.outside

    def command(self, node: int, words: Sequence[str]) -> list[str]:
        bind = f"mount --bind {shlex.quote(str(self._file(node)))} {_BOOT_ID}"
        return ["unshare", "--mount", "sh", "-c", f"{bind} && exec {shlex.join(words)}"]

    def _file(self, node: int) -> Path:
        return self._directory / f"boot-id-{node}"
