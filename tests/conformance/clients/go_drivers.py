"""The drivers of Go clients, built from `tools/goclients` on first use."""

from __future__ import annotations

import subprocess
from functools import cache, partial
from pathlib import Path

from tests.conformance.clients.driver_client import DriverClient

_ROOT = Path(__file__).resolve().parents[3]
_BUILD_TIMEOUT_S = 900


@cache
def go_driver(name: str) -> list[str]:
    """How to start the driver `name`. Raises CalledProcessError if it cannot be built."""
    subprocess.run(
        ["sh", str(_ROOT / "tools" / "setup" / "go_clients.sh")],
        check=True,
        capture_output=True,
        timeout=_BUILD_TIMEOUT_S,
    )
    return [str(_ROOT / ".cache" / "go-clients" / name)]


FRANZ_GO = DriverClient("franz-go", partial(go_driver, "franz"))
SARAMA = DriverClient("sarama", partial(go_driver, "sarama"))
