"""Jars from a pom.xml, copied once into a directory under the repository's ignored `.cache`."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"

MAVEN_TIMEOUT_S = 600
_STAMP = ".complete"


class JavaMissing(RuntimeError):
    """Java or Maven is not installed, or Maven could not fetch what the pom names."""


def java_executable() -> str:
    """The `java` on the path. Raises JavaMissing with what to install."""
    found = shutil.which("java")
    if found is None:
        raise JavaMissing("java is not on the path: apt-get install openjdk-17-jre-headless")
    return found


def copy_dependencies(pom: Path, cache_name: str) -> Path:
    """Returns `.cache/<cache_name>/lib` holding every jar that `pom` depends on.

    Runs Maven only when the pom differs from the one the stamp was made for. Safe to call from
    several processes at once: the second waits for the first. Raises JavaMissing.
    """
    home = CACHE / cache_name
    lib = home / "lib"
    stamp = home / _STAMP
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted and any(lib.glob("*.jar")):
            return lib
        stamp.unlink(missing_ok=True)
        shutil.rmtree(lib, ignore_errors=True)
        _run_maven(pom, lib, home / "target")
        stamp.write_text(wanted)
    return lib


def _run_maven(pom: Path, lib: Path, build: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaMissing("mvn is not on the path: apt-get install maven")
    java_executable()
    command = [
        maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
        f"-DoutputDirectory={lib}", f"-DbuildDirectory={build}",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise JavaMissing(f"mvn did not finish within {MAVEN_TIMEOUT_S} s for {pom}") from error
    if done.returncode != 0:
        raise JavaMissing(f"mvn failed for {pom}:\n{(done.stdout + done.stderr)[-2000:]}")
