"""The connection to etcd: plain, or by TLS, with a client certificate, with a user."""

from dataclasses import dataclass
from pathlib import Path

import grpc

from highwater.model.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdSecurity:
    """Paths of PEM files, and the user. A user needs TLS: a password is never sent plain."""

    ca_file: Path | None = None
    """Certificates to check etcd's with; TLS is used if there is a file."""
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password: str | None = None

    def __post_init__(self) -> None:
        assert (self.cert_file is None) == (self.key_file is None)
        assert (self.user is None) == (self.password is None)
        assert self.ca_file is not None or (self.cert_file is None and self.user is None)

    def __repr__(self) -> str:
        """Without the password."""
        return f"EtcdSecurity(ca_file={self.ca_file}, user={self.user})"

    def check_files(self) -> None:
        """Raises UsageError if a file cannot be read."""
        for path in (self.ca_file, self.cert_file, self.key_file):
            if path is not None:
                _read(path)

    @property
    def certificates(self) -> dict[str, bytes]:
        """What the next connection shows, as PEM. A file that cannot be read is told of there."""
        try:
            return {} if self.cert_file is None else {"etcd": self.cert_file.read_bytes()}
        except OSError:
            return {}

    @property
    def files(self) -> tuple[bytes, ...]:
        """What is in the files now; nothing of one that cannot be read."""
        paths = [one for one in (self.ca_file, self.cert_file, self.key_file) if one is not None]
        return tuple(one.read_bytes() if one.is_file() else b"" for one in paths)

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """For channels of the loop, None without TLS. Raises UsageError."""
        if self.ca_file is None:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca_file),
            private_key=None if self.key_file is None else _read(self.key_file),
            certificate_chain=None if self.cert_file is None else _read(self.cert_file),
        )


PLAIN = EtcdSecurity()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
