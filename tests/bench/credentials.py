"""What brokers show clients, and clients brokers, in rows with TLS and logins."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.certificates import make_certificate

USER: Final = "bench"
PASSWORD: Final = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The same for all brokers of a run: PEM files, there while the run lasts, and one user.

    `certificate` is for 127.0.0.1 and signed by itself; its key is on the curve P-256. `keystore` has
    both, as Kafka wants them (KIP-651).
    """

    certificate: Path
    key: Path
    keystore: Path

    @property
    def login(self) -> str:
        """USER:PASSWORD."""
        return f"{USER}:{PASSWORD}"


@contextmanager
def made_credentials() -> Iterator[Credentials]:
    """New ones, in a directory that goes at the end."""
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as name:
        directory = Path(name)
        certificate, key = make_certificate(directory)
        keystore = directory / "keystore.pem"
        keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
        yield Credentials(certificate=certificate, key=key, keystore=keystore)
