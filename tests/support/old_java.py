"""Kafka's Java clients from before 0.11, driven by `tools/old_clients/OldClient.java`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.maven import REPOSITORY, JavaMissing, copy_dependencies, java_executable

VERSIONS = {"0.9": "0.9.0.1", "0.10": "0.10.2.2"}
"""Directory of the pom -> the version of kafka-clients that it names."""

_HOME = REPOSITORY / "tools" / "old_clients"
_SOURCE = _HOME / "OldClient.java"
_COMPILE_S = 120
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
    classes = _compiled(jars)
    paths = f"{classes}:{jars}/*"
    return [java_executable(), *_JVM_OPTIONS, "-cp", paths, "OldClient", *arguments]


def _compiled(jars: Path) -> Path:
    """The directory of the classes; compiled again when the source has changed."""
    classes = jars.parent / "classes"
    stamp = classes / ".complete"
    wanted = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    with (jars.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(classes, ignore_errors=True)
            _compile(jars, classes)
            stamp.write_text(wanted)
    return classes


def _compile(jars: Path, classes: Path) -> None:
    # Of Eclipse, so that a runtime without a JDK is enough.
    [compiler] = jars.glob("ecj-*.jar")
    libraries = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    command = [
        java_executable(), "-jar", str(compiler), "-17", "-encoding", "UTF-8", "-cp", libraries,
        "-d", str(classes), str(_SOURCE),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode != 0:
        raise JavaMissing(f"{_SOURCE} was not compiled:\n{(done.stdout + done.stderr)[-2000:]}")
