"""The drivers of JavaScript clients; npm installs their packages on first use."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from functools import cache, partial
from pathlib import Path

from tests.conformance.clients.driver_client import DriverClient

_TOOLS = Path(__file__).resolve().parents[3] / "tools"
_INSTALL_TIMEOUT_S = 300


@cache
def node_driver(name: str) -> list[str]:
    """How to start the driver in `tools/NAME`. Raises RuntimeError without npm."""
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
    return ["node", str(directory / "driver.mjs")]


KAFKAJS = DriverClient("kafkajs", partial(node_driver, "kafkajs"))

PLATFORMATIC = DriverClient(
    "platformatic",
    partial(node_driver, "platformatic"),
    writes=frozenset({"binary", "headers", "timestamps"}),
)
"""@platformatic/kafka reads null as empty."""
