"""Kafka Streams, Connect and MirrorMaker 2, run from the jars of `tools/frameworks`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.java_programs import compiled
from tests.support.maven import REPOSITORY, copy_dependencies, java_executable

FRAMEWORK_TIMEOUT_S = 240.0
"""For each wait: a JVM starts in seconds, but on a machine that does other things in a minute, and
after a kill its clients wait for a session to run out."""

CONNECT_DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"

_HOME = REPOSITORY / "tools" / "frameworks"
_JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


def framework_command(
    main: str, *arguments: str, jvm_options: Sequence[str] = _JVM_OPTIONS
) -> list[str]:
    """The command line that runs a class of the frameworks. Raises JavaMissing."""
    return [java_executable(), *jvm_options, "-cp", f"{_jars()}/*", main, *arguments]


def program_command(program: str, *arguments: str) -> list[str]:
    """The command line that runs `tools/frameworks/<program>.java`. Raises JavaMissing.

    The first use fetches the jars and compiles the program, into `.cache/frameworks`.
    """
    jars = _jars()
    classes = compiled(_HOME / f"{program}.java", jars)
    return [java_executable(), *_JVM_OPTIONS, "-cp", f"{classes}:{jars}/*", program, *arguments]


def _jars() -> Path:
    return copy_dependencies(_HOME / "pom.xml", "frameworks")
