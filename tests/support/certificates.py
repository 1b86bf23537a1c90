"""A certificate of our own for localhost, and TLS by it."""

from __future__ import annotations

import ssl
import subprocess
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
