"""A certificate of our own for localhost, and TLS by it."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

Certificate = tuple[Path, Path]
"""PEM files: the certificate, its key."""


def make_certificate(directory: Path) -> Certificate:
    """By the openssl command, valid for two days."""
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *(
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ),
        *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
    ]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=30)
    return directory / "cert.pem", directory / "key.pem"


def tls_contexts(certificate: Certificate) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and that of a client which trusts it."""
    cert, key = certificate
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return server, ssl.create_default_context(cafile=str(cert))


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates, in a directory of its own."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.pem"

    def issue(self, name: str, directory: Path | None = None) -> Certificate:
        """For localhost and 127.0.0.1, with `name` as its CN; valid for two days."""
        place = directory or self.directory / name
        place.mkdir(exist_ok=True)
        (place / "extensions").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl(
            place, *_NEW_KEY, "-keyout", "key.pem", "-out", "request.pem", "-subj", f"/CN={name}"
        )
        _openssl(
            place,
            *("x509", "-req", "-in", "request.pem", "-out", "cert.pem", "-days", "2"),
            *("-CA", str(self.certificate), "-CAkey", str(self.directory / "ca-key.pem")),
            *("-CAcreateserial", "-extfile", "extensions"),
        )
        return place / "cert.pem", place / "key.pem"


def make_authority(directory: Path) -> Authority:
    """A new one, whom nobody trusts yet."""
    directory.mkdir(exist_ok=True)
    _openssl(
        directory,
        *(*_NEW_KEY, "-x509", "-days", "2", "-subj", "/CN=authority"),
        *("-keyout", "ca-key.pem", "-out", "ca.pem"),
    )
    return Authority(directory)


_NEW_KEY = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True, timeout=30)
