"""Small Java programs of the tests, compiled beside the jars that they use."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.maven import JavaMissing, java_executable

_COMPILE_S = 120


def compiled(source: Path, jars: Path) -> Path:
    """The directory of the program's classes, next to `jars`; made again when the source changes.

    One of the jars is Eclipse's compiler (`ecj`). Raises JavaMissing.
    """
    classes = jars.parent / "classes" / source.stem
    stamp = classes / ".complete"
    wanted = hashlib.sha256(source.read_bytes()).hexdigest()
    with (jars.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(classes, ignore_errors=True)
            _compile(source, jars, classes)
            stamp.write_text(wanted)
    return classes


def _compile(source: Path, jars: Path, classes: Path) -> None:
    # Of Eclipse, so that a runtime without a JDK is enough.
    [compiler] = jars.glob("ecj-*.jar")
    libraries = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    command = [
        java_executable(), "-jar", str(compiler), "-17", "-encoding", "UTF-8", "-cp", libraries,
        "-d", str(classes), str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
    if done.returncode != 0:
        raise JavaMissing(f"{source} was not compiled:\n{(done.stdout + done.stderr)[-2000:]}")
