"""Kafka's Java clients from before 0.11, driven by `tools/old_clients/OldClient.java`."""

from __future__ import annotations

from tests.support.java_programs import compiled
from tests.support.maven import REPOSITORY, copy_dependencies, java_executable

VERSIONS = {"0.9": "0.9.0.1", "0.10": "0.10.2.2"}
"""Directory of the pom -> the version of kafka-clients that it names."""

_HOME = REPOSITORY / "tools" / "old_clients"
_SOURCE = _HOME / "OldClient.java"
_JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def old_client_command(version: str, *arguments: str) -> list[str]:
    """The command line that runs the program with this client. Raises JavaMissing.

    The first use fetches the jars and compiles the program, into `.cache/old-clients-VERSION`.
    """
    jars = copy_dependencies(_HOME / f"kafka-{version}" / "pom.xml", f"old-clients-{version}")
    paths = f"{compiled(_SOURCE, jars)}:{jars}/*"
    return [java_executable(), *_JVM_OPTIONS, "-cp", paths, "OldClient", *arguments]
