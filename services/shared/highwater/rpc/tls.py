"""TLS of a channel or a server, from PEM files: for this transport as a context, for grpcio as bytes.

The files are read once, when an object is made, so that a mistake in them shows at the start of a
service and not when the first peer connects.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from highwater.model.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """A certificate, with those between it and its authority behind it, and its key without password."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificatePem:
    """What is in the files."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Without the key."""
        return "CertificatePem()"


class ClientTls:
    """A client's: the peer has to show a certificate that names the host which the client calls."""

    def __init__(self, *, trusted: Path, shown: CertificateFiles | None = None) -> None:
        """`trusted`: certificates of authorities; `shown`: for servers that ask who calls.

        Raises UsageError.
        """
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.trusted = _trust(self.context, trusted)
        self.shown = None if shown is None else _show(self.context, shown)


class ServerTls:
    """A server's. With `trusted` it serves only clients that show a certificate of these authorities."""

    def __init__(self, *, shown: CertificateFiles, trusted: Path | None = None) -> None:
        """Raises UsageError."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.shown = _show(self.context, shown)
        self.trusted = None if trusted is None else _trust(self.context, trusted)
        if trusted is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED


def _trust(context: ssl.SSLContext, path: Path) -> bytes:
    """Adds the authorities of a file, and gives its content."""
    content = _read(path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise UsageError(f"{path} holds no certificates: {error.reason}") from None
    return content


def _show(context: ssl.SSLContext, files: CertificateFiles) -> CertificatePem:
    """Lets the context show the certificate, and gives what is in the files."""
    content = CertificatePem(certificate=_read(files.certificate), key=_read(files.key))
    try:
        # Without the argument OpenSSL asks the terminal for the password of a key that has one.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        raise UsageError(
            f"{files.certificate} and {files.key} are no certificate and its key: {error.reason}"
        ) from None
    return content


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
