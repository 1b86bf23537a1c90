"""The drivers of Go clients, built from `tools/goclients` on first use."""

from __future__ import annotations

import platform
import subprocess
from functools import cache, partial
from pathlib import Path

import pytest

from tests.conformance.clients.driver_client import DriverClient

_ROOT = Path(__file__).resolve().parents[3]
BUILD_TIMEOUT_S = 900
_TOGETHER = ("franz", "sarama")
"""What is built at once, as `make peers` does."""


@cache
def go_driver(name: str) -> list[str]:
    """How to start the driver `name`. Raises CalledProcessError if it cannot be built."""
    names = _TOGETHER if name in _TOGETHER else (name,)
    subprocess.run(
        ["sh", str(_ROOT / "tools" / "setup" / "go_clients.sh"), *names],
        check=True,
        capture_output=True,
        timeout=BUILD_TIMEOUT_S,
    )
    return [str(_ROOT / ".cache" / "go-clients" / name)]


FRANZ_GO = DriverClient("franz-go", partial(go_driver, "franz"))
SARAMA = DriverClient("sarama", partial(go_driver, "sarama"))
LIBRDKAFKA_1_8 = DriverClient("librdkafka 1.8.2", partial(go_driver, "confluent"))
"""The oldest that Kafka 4 means to serve (KIP-896)."""

needs_x86_64 = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the module has librdkafka 1.8.2 for Linux on x86-64 only",
)
"""Tests with LIBRDKAFKA_1_8 take a minute the first time: `full`."""
