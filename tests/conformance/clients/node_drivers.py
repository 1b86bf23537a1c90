"""The drivers of JavaScript clients; npm installs their packages on first use."""

from __future__ import annotations

import re
import subprocess
from functools import cache, partial

import pytest

from tests.conformance.clients.driver_client import DriverClient
from tests.support.npm import installed


@cache
def node_driver(name: str) -> list[str]:
    """How to start the driver in `tools/NAME`. Raises RuntimeError without npm."""
    return ["node", str(installed(name) / "driver.mjs")]


@cache
def node_version() -> tuple[int, ...]:
    """Of the machine's Node."""
    shown = subprocess.run(
        ["node", "--version"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    return tuple(int(number) for number in re.findall(r"\d+", shown))


KAFKAJS = DriverClient("kafkajs", partial(node_driver, "kafkajs"))

PLATFORMATIC = DriverClient(
    "platformatic",
    partial(node_driver, "platformatic"),
    writes=frozenset({"binary", "headers", "timestamps"}),
)
"""@platformatic/kafka reads null as empty."""

needs_its_node = pytest.mark.skipif(
    node_version() < (20, 19, 4), reason="@platformatic/kafka needs Node 20.19.4"
)
