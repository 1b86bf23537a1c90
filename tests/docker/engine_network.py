"""The only way between this machine and an engine in a network namespace: a pair of interfaces.

    this machine  hwd<n> 198.18.x.1/30 ── 198.18.x.2/30 eth0  the engine, its bridges and rules

198.18.0.0/15 is set aside for tests of networks (RFC 2544). The name of the interface claims the
subnet: the kernel makes it once. Both ends vanish when the namespace's last process has ended.
"""

from __future__ import annotations

import ipaddress
import secrets
import subprocess

NET = ipaddress.ip_network("198.18.0.0/15")
SUBNETS = 4096
_TRIES_MAX = 20
_TIMEOUT_S = 20


class EngineNetwork:
    """The addresses of both ends; `connect` makes the interfaces."""

    def __init__(self) -> None:
        self._number = 0
        self.inside = ""
        self.outside = ""
        self._choose()

    def connect(self, pid: int) -> None:
        """Connects the network namespace of that process with ours."""
        for _ in range(_TRIES_MAX):
            name = f"hwd{self._number}"
            made = _run(
                *("ip", "link", "add", name, "type", "veth"),
                *("peer", "name", "eth0", "netns", str(pid)),
                check=False,
            )
            if made.returncode == 0:
                break
            if b"exists" not in made.stderr:
                raise RuntimeError(f"no pair of interfaces: {made.stderr.decode().strip()}")
            self._choose()
        else:
            raise RuntimeError("no free interface for an engine")
        _run("ip", "address", "add", f"{self.outside}/30", "dev", name)
        _run("ip", "link", "set", name, "up")
        within = ("nsenter", "--net", "--target", str(pid), "ip")
        _run(*within, "address", "add", f"{self.inside}/30", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _run(*within, "link", "set", interface, "up")

    def _choose(self) -> None:
        self._number = secrets.randbelow(SUBNETS)
        subnet = NET[4 * self._number]
        self.outside, self.inside = str(subnet + 1), str(subnet + 2)


def _run(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(words, check=check, capture_output=True, timeout=_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(words)}: {error.stderr.decode().strip()}") from None
