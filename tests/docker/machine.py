"""What this machine knows of package sources and certificates, for builds inside of containers.

A build has to reach what the machine reaches: its distribution's mirror, its package index, through
its proxy, trusting its certificates. Nothing of that is written down in the repository.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Debian's images have theirs, and most machines, too."""

_ASK_S = 60
_INDEX_TARGET = "$(RELEASE)\t$(REPO_URI)\t$(COMPONENT)"
_CARRIED = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "trusted-host": "PIP_TRUSTED_HOST",
    "default-timeout": "PIP_DEFAULT_TIMEOUT",
    "timeout": "PIP_DEFAULT_TIMEOUT",
}
"""pip's settings -> the Dockerfile's arguments. Others name files of this machine, or are taste."""
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The release that this machine runs, and where it has its packages from."""

    suite: str
    mirror: str
    components: tuple[str, ...]


def distribution() -> Distribution | None:
    """None if this is not Debian or one of its children, or apt has no sources for the release."""
    suite = _os_release().get("VERSION_CODENAME", "")
    targets = _ask("apt-get", "indextargets", "--format", _INDEX_TARGET, "Created-By: Packages")
    rows = [row.split("\t") for row in targets.splitlines()]
    found = [row for row in rows if len(row) == 3 and row[0] == suite]
    if not suite or not found:
        return None
    mirror = found[0][1]
    components = dict.fromkeys(row[2] for row in found if row[1] == mirror)
    return Distribution(suite=suite, mirror=mirror, components=tuple(components))


def certificates() -> Path | None:
    """The bundle that programs of this machine trust."""
    for path in (os.environ.get("SSL_CERT_FILE"), CERTIFICATES):
        if path and Path(path).is_file():
            return Path(path)
    return None


def proxies() -> dict[str, str]:
    """Variables for whoever fetches by HTTP; apt's own settings count where there are none."""
    found = {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
    for scheme in ("http", "https"):
        told = _ask("apt-config", "shell", "proxy", f"Acquire::{scheme}::Proxy")
        match = re.search(r"proxy='(.+)'", told)
        if match and not found.get(f"{scheme}_proxy"):
            found[f"{scheme}_proxy"] = match[1]
    return found


def pip_settings() -> dict[str, str]:
    """Build arguments, from pip's environment and files alike."""
    found = {}
    told = _ask(sys.executable, "-m", "pip", "config", "list").splitlines()
    # The environment counts for more than any file.
    for line in sorted(told, key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        argument = _CARRIED.get(name.rpartition(".")[2])
        if argument and value:
            found[argument] = str(ast.literal_eval(value))
    return found


def _os_release() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {name: value.strip("\"'") for name, _, value in pairs}


def _ask(*words: str) -> str:
    """What a program says; nothing if it is not there or knows no answer."""
    try:
        asked = subprocess.run(words, capture_output=True, text=True, timeout=_ASK_S, check=False)
    except OSError:
        return ""
    return asked.stdout if asked.returncode == 0 else ""
