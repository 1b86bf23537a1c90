"""The client's message of OAUTHBEARER (RFC 7628, section 3.1; KIP-255), as bytes in and a token out.

    n,a=USER,^A auth=Bearer TOKEN ^A KEY=VALUE ^A ... ^A ^A        without the spaces; ^A is 0x01

USER, whom the client wants to act as, and extensions are optional.
"""

import re
from typing import Final, NamedTuple

from highwater.gateway.login.scram_server import LoginRefused

REFUSAL: Final = b'{"status":"invalid_token"}'
"""The answer to a token that is not accepted: the client says 0x01, and then the login has failed."""
ACKNOWLEDGEMENT: Final = b"\x01"
_MESSAGE: Final = re.compile(rb"n,(?:a=([^,\x01]*))?,\x01((?:[A-Za-z]+=[^\x01]*\x01)+)\x01")
_BEARER: Final = re.compile(rb"Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)


class BearerMessage(NamedTuple):
    """What the client sent."""

    token: str
    acts_as: str
    """Whom it wants to be; empty for whom the token names."""


def parse(message: bytes) -> BearerMessage:
    """Reads the client's first message. Raises LoginRefused; the words hold nothing of the token."""
    found = _MESSAGE.fullmatch(message)
    if found is None:
        raise LoginRefused("malformed message of OAUTHBEARER")
    pairs = [pair.partition(b"=") for pair in found[2].removesuffix(b"\x01").split(b"\x01")]
    given = [value for key, _, value in pairs if key == b"auth"]
    bearer = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    if bearer is None:
        raise LoginRefused("no bearer token in the message of OAUTHBEARER")
    try:
        acts_as = _unescaped((found[1] or b"").decode())
    except UnicodeDecodeError:
        raise LoginRefused("the user name is not UTF-8") from None
    return BearerMessage(bearer[1].decode("ascii"), acts_as)


def _unescaped(saslname: str) -> str:
    """RFC 5801: a comma is written `=2C`, an equals sign `=3D`."""
    return saslname.replace("=2C", ",").replace("=3D", "=")
