"""The parts of a distribution of Kafka that the suite uses beside the broker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.java_tools import TOPICS, java_command

_COMMAND = "sasl_command.conf"
_TEMPLATE = """security.protocol={transport}
sasl.mechanism={sasl_mechanism}
sasl.jaas.config={jaas_config}
"""
"""As the suite's repository has it, which the sdist leaves out; the fixture fills it in."""


def make_distribution(directory: Path) -> None:
    """Makes the script that runs Kafka's tool for topics, and the template of its settings."""
    tool = directory / "bin" / "kafka-topics.sh"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {__spec__.name} "$@"\n')
    tool.chmod(0o755)
    template = directory / "servers" / "resources" / "default" / _COMMAND
    template.parent.mkdir(parents=True, exist_ok=True)
    template.write_text(_TEMPLATE)


if __name__ == "__main__":
    command = java_command(TOPICS, *sys.argv[1:])
    os.execv(command[0], command)
