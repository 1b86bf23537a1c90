"""Old releases of Kafka's Java clients: those before 0.11 are driven by `tools/old_clients/OldClient.java`,
later ones by `Driver.java`, which takes the JSON of all drivers.
"""

from __future__ import annotations

from tests.support.java_programs import compiled
from tests.support.maven import REPOSITORY, copy_dependencies, java_executable

VERSIONS = {"0.9": "0.9.0.1", "0.10": "0.10.2.2"}
"""Directory of the pom -> the version of kafka-clients that it names."""

DRIVEN = {"0.11": "0.11.0.3", "2.1": "2.1.1", "3.9": "3.9.1"}
"""The same for later ones: the first with transactions (KIP-98), the oldest that Kafka 4 means to serve
(KIP-896), and the last before 4.0.
"""

_HOME = REPOSITORY / "tools" / "old_clients"
_JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def old_client_command(version: str, *arguments: str) -> list[str]:
    """The command line that runs the program with a client before 0.11. Raises JavaMissing."""
    return _command(version, "OldClient", *arguments)


def driver_command(version: str) -> list[str]:
    """The start of the command line of the driver, with a later client. Raises JavaMissing."""
    return _command(version, "Driver")


def admin_command(*arguments: str) -> list[str]:
    """The command line that runs `AdminOf39`. Raises JavaMissing."""
    return _command("3.9", "AdminOf39", *arguments)


def _command(version: str, program: str, *arguments: str) -> list[str]:
    """The first use fetches the jars and compiles the program, into `.cache/old-clients-VERSION`."""
    jars = copy_dependencies(_HOME / f"kafka-{version}" / "pom.xml", f"old-clients-{version}")
    paths = f"{compiled(_HOME / f'{program}.java', jars)}:{jars}/*"
    return [java_executable(), *_JVM_OPTIONS, "-cp", paths, program, *arguments]
