"""The drivers of JavaScript clients; npm installs their packages on first use."""

from __future__ import annotations

from functools import cache, partial

from tests.conformance.clients.driver_client import DriverClient
from tests.support.npm import installed


@cache
def node_driver(name: str) -> list[str]:
    """How to start the driver in `tools/NAME`. Raises RuntimeError without npm."""
    return ["node", str(installed(name) / "driver.mjs")]


KAFKAJS = DriverClient("kafkajs", partial(node_driver, "kafkajs"))

PLATFORMATIC = DriverClient(
    "platformatic",
    partial(node_driver, "platformatic"),
    writes=frozenset({"binary", "headers", "timestamps"}),
)
"""@platformatic/kafka reads null as empty."""
