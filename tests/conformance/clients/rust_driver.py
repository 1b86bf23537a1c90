"""The driver of the rdkafka crate, built from `tools/rustclient` on first use."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.conformance.clients.driver_client import DriverClient

_ROOT = Path(__file__).resolve().parents[3]
_BUILD_TIMEOUT_S = 1_000


@cache
def rust_driver() -> list[str]:
    """How to start the driver. Raises CalledProcessError if it cannot be built."""
    subprocess.run(
        ["sh", str(_ROOT / "tools" / "setup" / "rust_client.sh")],
        check=True,
        capture_output=True,
        timeout=_BUILD_TIMEOUT_S,
    )
    return [str(_ROOT / ".cache" / "rust-client" / "debug" / "highwater-rustclient")]


RUST_RDKAFKA = DriverClient("rdkafka crate", rust_driver)
