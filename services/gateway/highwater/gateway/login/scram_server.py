"""The server's side of one SCRAM login, without I/O (RFC 5802, RFC 7677; KIP-84).

    client                                    server
    n,,n=alice,r=CNONCE                  ->
                                         <-   r=CNONCE+SNONCE,s=SALT,i=4096
    c=biws,r=CNONCE+SNONCE,p=PROOF       ->
                                         <-   v=SIGNATURE

A user who is not there is refused by the second message, not the first, so that a client does not
learn which users there are.

Deviations from Kafka's `ScramSaslServer`
- Extensions of the first message are ignored; Kafka knows one, `tokenauth`, for delegation tokens,
  which are refused here.
- A client may say that it could bind to a channel (`y`), as the RFC allows.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final

from highwater.model.errors import HighwaterError
from highwater.model.scram import ScramCredential, ScramMechanism, digest_name

NONCE_CHARS_MAX: Final = 1024
_FIRST: Final = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?P<extensions>(?:,[^\x00]*)?))"
)
_FINAL: Final = re.compile(
    r"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?:,[^\x00]*)?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_NOT_ESCAPED: Final = re.compile(r"=(?!2C|3D)")


class LoginRefused(HighwaterError):
    """The login failed. The text is for the log, and has nothing secret; clients get another one."""

    reason = "LOGIN_REFUSED"


class ScramServer:
    """One login. Calls are `first`, then `final`; either may raise LoginRefused, which ends it."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        *,
        find: Callable[[str], tuple[ScramCredential, bool]],
        nonce: str,
    ) -> None:
        """`find` returns a user's credential and True, or one that nobody knows the password of and
        False. `nonce` is the server's: random, of printable characters without a comma.
        """
        self._digest = digest_name(mechanism)
        self._find = find
        self._own_nonce = nonce
        self._nonce = ""
        self._gs2 = b""
        self._signed = ""
        self._credential: ScramCredential
        self._is_known = False
        self.user = ""
        """Who the client says it is, after `first`."""

    def first(self, message: bytes) -> bytes:
        """Takes client-first-message; returns server-first-message."""
        found = _FIRST.fullmatch(_text(message))
        if found is None:
            raise LoginRefused("malformed client-first-message")
        if "tokenauth=true" in found["extensions"].split(","):
            raise LoginRefused("it logs in by a delegation token, and these are disabled")
        user = _unescaped(found["user"])
        authzid = found["authzid"]
        if authzid and _unescaped(authzid) != user:
            raise LoginRefused("it asks to act as another user")
        if len(found["nonce"]) > NONCE_CHARS_MAX:
            raise LoginRefused("the client's nonce is too long")
        self.user = user
        self._credential, self._is_known = self._find(user)
        self._gs2 = found["gs2"].encode()
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._signed = f"{found['bare']},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """Takes client-final-message; returns server-final-message: the client is `user`."""
        found = _FINAL.fullmatch(_text(message))
        if found is None:
            raise LoginRefused("malformed client-final-message")
        if _decoded(found["binding"]) != self._gs2:
            raise LoginRefused("the channel binding is not that of the first message")
        if found["nonce"] != self._nonce:
            raise LoginRefused("the nonce is not that of this login")
        proof = _decoded(found["proof"])
        signed = f"{self._signed},{found['unproven']}".encode()
        if not self._proves(proof, signed) or not self._is_known:
            raise LoginRefused("wrong user or password")
        signature = hmac.digest(self._credential.server_key, signed, self._digest)
        return b"v=" + base64.b64encode(signature)

    def _proves(self, proof: bytes, signed: bytes) -> bool:
        signature = hmac.digest(self._credential.stored_key, signed, self._digest)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._digest, client_key).digest()
        return hmac.compare_digest(stored_key, self._credential.stored_key)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginRefused("a message is not UTF-8") from None


def _unescaped(name: str) -> str:
    """The user name that a `saslname` stands for."""
    if _NOT_ESCAPED.search(name):
        raise LoginRefused("a user name has a bare '='")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginRefused("a value is not base64") from None
