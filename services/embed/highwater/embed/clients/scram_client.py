"""The client's side of one SCRAM login, without I/O (RFC 5802, RFC 7677; KIP-84)."""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from highwater.model.errors import UnreachableError
from highwater.model.scram import ITERATIONS_MIN, ScramMechanism, digest_name, salted_password

ITERATIONS_MAX: Final = 1_000_000
"""More would keep the command busy for seconds: no server of ours asks for so many."""
_FIRST: Final = re.compile(rb"r=([\x21-\x2B\x2D-\x7E]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")
_FINAL: Final = re.compile(rb"v=([A-Za-z0-9+/=]+)(?:,.*)?")
_GS2: Final = b"n,,"


class ScramClient:
    """One login. Calls are `first`, `final` and `check`, each with the server's last message."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, *, nonce: str) -> None:
        """`nonce` is random, of printable characters without a comma."""
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce.encode()
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = b"n=%b,r=%b" % (escaped.encode(), self._nonce)
        self._signature = b""

    def first(self) -> bytes:
        """client-first-message."""
        return _GS2 + self._bare

    def final(self, message: bytes) -> bytes:
        """Takes server-first-message; returns client-final-message. Raises UnreachableError."""
        found = _FIRST.fullmatch(message)
        salt = b"" if found is None else _decoded(found[2])
        if found is None or not salt or not found[1].startswith(self._nonce):
            raise UnreachableError("the broker's part of the login is malformed")
        iterations = int(found[3])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise UnreachableError(f"the broker asks for {iterations} iterations in the login")
        digest = digest_name(self._mechanism)
        salted = salted_password(self._mechanism, self._password, salt=salt, iterations=iterations)
        unproven = b"c=%b,r=%b" % (base64.b64encode(_GS2), found[1])
        signed = b",".join((self._bare, message, unproven))
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        signature = hmac.digest(stored_key, signed, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
        return b"%b,p=%b" % (unproven, base64.b64encode(proof))

    def check(self, message: bytes) -> None:
        """Takes server-final-message. Raises UnreachableError if the server does not know the password."""
        found = _FINAL.fullmatch(message)
        if found is None or not hmac.compare_digest(_decoded(found[1]), self._signature):
            raise UnreachableError("the broker has not proven that it knows the user")


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
