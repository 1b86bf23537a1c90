"""The driver of the rdkafka crate, built from `tools/rustclient` on first use."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.clients.driver_client import DriverClient

_ROOT = Path(__file__).resolve().parents[3]
BUILD_TIMEOUT_S = 1_000


@cache
def rust_driver() -> list[str]:
    """How to start the driver. Raises CalledProcessError if it cannot be built."""
    subprocess.run(
        ["sh", str(_ROOT / "tools" / "setup" / "rust_client.sh")],
        check=True,
        capture_output=True,
        timeout=BUILD_TIMEOUT_S,
    )
    return [str(_ROOT / ".cache" / "rust-client" / "debug" / "highwater-rustclient")]


def cargo_version() -> tuple[int, ...]:
    """(major, minor) of cargo; () without one."""
    if shutil.which("cargo") is None:
        return ()
    command = ["cargo", "--version"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return tuple(int(number) for number in re.findall(r"\d+", shown)[:2])


needs_cargo = pytest.mark.skipif(
    cargo_version() < (1, 85), reason="the rdkafka crate needs cargo 1.85"
)
"""Tests with it take minutes the first time: `full`, and `pytest.mark.timeout(BUILD_TIMEOUT_S)`."""

RUST_RDKAFKA = DriverClient("rdkafka crate", rust_driver)
