"""Commands that are run inside of a container for what they print."""

from __future__ import annotations

from collections.abc import Sequence

from docker.models.containers import Container

_OUTLIVE: tuple[str, ...] = ("sh", "-c", '"$@"; code=$?; sleep 0.3; exit $code', "sh")
"""Engines may lose the output of a command that ends before anybody reads it: seen with Docker 20.10."""


def printed(container: Container, command: Sequence[str]) -> str:
    """What the command prints, which ends with code 0. Raises AssertionError if it does not."""
    code, output = container.exec_run([*_OUTLIVE, *command])
    text: str = output.decode("utf-8", "replace")
    assert code == 0, f"{container.name}: {' '.join(command)}: {text}"
    return text
