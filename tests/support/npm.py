"""Packages of npm that tests use; npm installs them on first use."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

_TOOLS = Path(__file__).resolve().parents[2] / "tools"
_INSTALL_TIMEOUT_S = 300


def installed(name: str) -> Path:
    """Returns the directory `tools/NAME`, in which `node_modules` is what its lock file says.

    Raises RuntimeError without npm.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not on the path: apt-get install nodejs npm")
    directory = _TOOLS / name
    with (directory / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = directory / "node_modules" / ".stamp"
        wanted = (directory / "package-lock.json").read_text()
        if not stamp.exists() or stamp.read_text() != wanted:
            command = [npm, "ci", "--prefix", str(directory), "--no-audit", "--no-fund"]
            subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_TIMEOUT_S)
            stamp.write_text(wanted)
    return directory
