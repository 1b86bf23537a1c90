"""TLS of a channel or a server, from PEM files: for this transport as a context, for grpcio as bytes.

The files are read when an object is made, so that a mistake in them shows at the start of a service
and not when the first peer connects, and again when they have changed: for new connections.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.model.errors import UsageError
from highwater.runtime.reloaded_files import OnFailure, ReloadedFiles

ALPN: Final = "h2"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """All that was read together."""

    context: ssl.SSLContext
    trusted: bytes | None
    shown: CertificatePem | None


def _unheard(_error: UsageError) -> None:
    """For those who do not change their files."""


TlsSource = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""What TLS connections are made with: always the same, or the one of that moment."""


def as_source(tls: TlsSource) -> Callable[[], ssl.SSLContext]:
    """Gives the context for the next connection. It agrees on HTTP/2, by ALPN."""
    if isinstance(tls, ssl.SSLContext):
        context = tls
        context.set_alpn_protocols([ALPN])
        return lambda: context
    return tls


class _Tls:
    """What both ends have."""

    def __init__(
        self, paths: list[Path], make: Callable[[], Loaded], on_failure: OnFailure
    ) -> None:
        self._files = ReloadedFiles(paths, make, on_failure=on_failure)

    @property
    def loaded(self) -> Loaded:
        """The files as they are, or last could be used. From any thread."""
        return self._files.get()

    @property
    def generation(self) -> int:
        """Grows when the files have changed. From any thread."""
        self._files.get()
        return self._files.generation

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self.loaded.context

    @property
    def shown(self) -> CertificatePem | None:
        """The own certificate, if there is one."""
        return self.loaded.shown

    @property
    def trusted(self) -> bytes | None:
        """The authorities of peers' certificates, if they are asked for."""
        return self.loaded.trusted


class ClientTls(_Tls):
    """A client's: the peer has to show a certificate that names the host which the client calls."""

    def __init__(
        self,
        *,
        trusted: Path,
        shown: CertificateFiles | None = None,
        on_failure: OnFailure = _unheard,
    ) -> None:
        """`trusted`: certificates of authorities; `shown`: for servers that ask who calls.

        Raises UsageError. `on_failure` gets what is wrong with files that have changed.
        """

        def make() -> Loaded:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols([ALPN])
            return Loaded(
                context=context,
                trusted=_trust(context, trusted),
                shown=None if shown is None else _show(context, shown),
            )

        super().__init__([trusted, *_paths(shown)], make, on_failure)


class ServerTls(_Tls):
    """A server's. With `trusted` it serves only clients that show a certificate of these authorities."""

    def __init__(
        self,
        *,
        shown: CertificateFiles,
        trusted: Path | None = None,
        on_failure: OnFailure = _unheard,
    ) -> None:
        """Raises UsageError. `on_failure` gets what is wrong with files that have changed."""

        def make() -> Loaded:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.set_alpn_protocols([ALPN])
            pem = _show(context, shown)
            if trusted is None:
                return Loaded(context=context, trusted=None, shown=pem)
            context.verify_mode = ssl.CERT_REQUIRED
            return Loaded(context=context, trusted=_trust(context, trusted), shown=pem)

        super().__init__(
            [*_paths(shown), *([] if trusted is None else [trusted])], make, on_failure
        )


def _paths(files: CertificateFiles | None) -> list[Path]:
    return [] if files is None else [files.certificate, files.key]


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
