"""Certificates of listeners: contexts for TLS 1.2 and 1.3, loaded again when their files change."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from highwater.model.errors import ConfigError
from highwater.runtime.reloaded_files import Stamp, file_stamps


class ClientAuth(StrEnum):
    """Whether clients show a certificate (ssl.client.auth)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files: the chain of the listener, its key, and whom clients' certificates have to be from."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    enabled_protocols: tuple[str, ...] = tuple(_VERSIONS)
    """Kafka's names (ssl.enabled.protocols), at least one."""


class TlsContext:
    """The certificate of one listener, and the context for its next handshake. Lives as long as that."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises ConfigError if the files cannot be used."""
        self._files = files
        named = (files.cert_file, files.key_file, files.client_ca_file)
        self._paths = [Path(name) for name in named if name]
        self._seen = file_stamps(self._paths)
        self._check(self._seen)
        self.context = self._load()
        self.shown = self._read()
        """What is in the file of the certificate that is in use."""

    def reload(self) -> bool:
        """Loads the files again if they have changed, for new handshakes; whether they had.

        Raises ConfigError if they cannot be used, once for each change of them: the former certificate stays.
        """
        stamps = file_stamps(self._paths)
        if stamps == self._seen:
            return False
        self._seen = stamps
        self._check(stamps)
        # A new one: threads shake hands by the former one.
        self.context = self._load()
        self.shown = self._read()
        return True

    def _read(self) -> bytes:
        try:
            return Path(self._files.cert_file).read_bytes()
        except OSError as error:
            raise ConfigError(f"{self._files.cert_file}: {error.strerror}") from error

    def _check(self, stamps: Sequence[Stamp]) -> None:
        for path, stamp in zip(self._paths, stamps, strict=True):
            if stamp is None:
                raise ConfigError(f"{path}: No such file, or its directory cannot be read")

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = [_VERSIONS[name] for name in files.enabled_protocols]
        context.minimum_version = min(versions)
        context.maximum_version = max(versions)
        context.options |= ssl.OP_NO_RENEGOTIATION  # As Kafka; so writes never wait for reads.
        context.verify_mode = _VERIFY[files.client_auth]
        try:
            context.load_cert_chain(files.cert_file, files.key_file)
            if files.client_ca_file:
                context.load_verify_locations(files.client_ca_file)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"the certificate {files.cert_file} with the key {files.key_file} cannot be used: {error}"
            ) from error
        return context
