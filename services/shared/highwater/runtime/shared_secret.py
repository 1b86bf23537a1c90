"""The secret that the services of a cluster share, in a file: read, made, shown and compared.

It travels as `authorization: Bearer <secret>` in the metadata of each call. Nothing here tells it: not
errors, and not what objects look like.
"""

import contextlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from highwater.model.errors import ConfigError, UnwritableDirectoryError
from highwater.runtime.reloaded_files import OnFailure, ReloadedFiles

METADATA_KEY: Final = "authorization"

SECRET_BYTES: Final = 32
"""Of a new one, random."""
SECRET_CHARS_MIN: Final = 16
SECRET_CHARS_MAX: Final = 512
SECRETS_MAX: Final = 10
"""Lines: one is in use, and two while it changes."""
FILE_BYTES_MAX: Final = 8 << 10
SECRET_MODE: Final = 0o600

_SCHEME: Final = "Bearer "
_SECRET: Final = re.compile(r"[A-Za-z0-9\-._~+/=]+")
"""What a token may have (RFC 6750, section 2.1)."""


class SharedSecret:
    """The secret of one file. Lives as long as its process; used from any thread."""

    def __init__(self, path: Path, *, on_failure: OnFailure) -> None:
        """Raises ConfigError. `on_failure` gets what is wrong with the file when it has changed."""
        self._proofs = ReloadedFiles([path], lambda: _read(path), on_failure=on_failure)

    def __repr__(self) -> str:
        """Without the secret."""
        return "SharedSecret()"

    @property
    def proof(self) -> str:
        """The value of METADATA_KEY that shows it."""
        return self._proofs.get()[0].decode()

    def is_proved_by(self, value: str | bytes) -> bool:
        """Whether this value of METADATA_KEY shows it; takes the same time for all of a length."""
        shown = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        # All of them, so that the time does not tell which one was nearly right.
        return sum(hmac.compare_digest(shown, proof) for proof in self._proofs.get()) > 0


def make_secret(path: Path) -> None:
    """Writes a random secret for this user only, unless there is one. Raises UsageError."""
    new = path.with_name(f".{path.name}.new")
    try:
        if path.exists():
            return
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, SECRET_MODE)  # Whatever the umask is.
            file.write(secrets.token_urlsafe(SECRET_BYTES) + "\n")
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise UnwritableDirectoryError(str(path.parent), error.strerror or str(error)) from None


def is_open_to_others(path: Path) -> bool:
    """Whether users other than the file's owner may read or change it."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False  # Whoever reads it says so.


def _read(path: Path) -> list[bytes]:
    """The proofs of a file's secrets, at least one. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the secret file {path}: {error.strerror}") from None
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    found = [line for line in lines if line]
    if len(content) > FILE_BYTES_MAX or not 0 < len(found) <= SECRETS_MAX:
        raise ConfigError(f"the secret file {path} must have 1 to {SECRETS_MAX} lines")
    for number, line in enumerate(found, start=1):
        if not SECRET_CHARS_MIN <= len(line) <= SECRET_CHARS_MAX:
            raise ConfigError(
                f"the secret file {path}: secret {number} must have {SECRET_CHARS_MIN} to "
                f"{SECRET_CHARS_MAX} characters"
            )
        if _SECRET.fullmatch(line) is None:
            raise ConfigError(
                f"the secret file {path}: secret {number} has characters other than letters, "
                "digits and -._~+/="
            )
    return [f"{_SCHEME}{line}".encode() for line in found]
