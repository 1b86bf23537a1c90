"""SCRAM credentials: what a server keeps of a password (RFC 5802, KIP-84, KIP-554).

A server checks a login with StoredKey and proves itself with ServerKey; the salted password, from
which anybody could log in, is not kept. Credentials are in the metadata store and in the image, which
every member follows (decision 180): gateways check logins by them also while no controller is active.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from highwater.model.ids import InstanceId


class ScramMechanism(IntEnum):
    """The mechanisms; values as in Kafka's requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The name that clients log in with."""
        return self.name.replace("_", "-")


PLAIN: Final = "PLAIN"
"""The mechanism that sends the password as it is (RFC 4616); checked by the same credentials."""

OAUTHBEARER: Final = "OAUTHBEARER"
"""The mechanism of tokens, which somebody else has issued (RFC 7628)."""

SASL_MECHANISMS: Final = (*(one.mechanism_name for one in ScramMechanism), PLAIN, OAUTHBEARER)
"""The names of all."""


_DIGESTS: Final = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}


ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""Kafka's limits (`ScramMechanism`)."""

MECHANISM_DEFAULT: Final = ScramMechanism.SCRAM_SHA_512
ITERATIONS_DEFAULT: Final = ITERATIONS_MIN
SALT_BYTES_DEFAULT: Final = 16
"""Of users who are set without saying otherwise; those who are not there look like these."""
LOGIN_SECRET_BYTES: Final = 32
"""Of the cluster's secret, of which the salts of users who are not there are made."""


class ScramKey(NamedTuple):
    """Whose credential it is."""

    instance: InstanceId
    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """One user's credential for one mechanism; only the iterations are shown by `repr`."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def digest_name(mechanism: ScramMechanism) -> str:
    """The mechanism's hash, by its name in `hashlib`."""
    return _DIGESTS[mechanism]


def salted_password(
    mechanism: ScramMechanism, password: bytes, *, salt: bytes, iterations: int
) -> bytes:
    """What a password becomes with its salt: `Hi` of RFC 5802. Some ms, without the interpreter's lock."""
    return hashlib.pbkdf2_hmac(_DIGESTS[mechanism], password, salt, iterations)


def scram_credential(
    mechanism: ScramMechanism, *, iterations: int, salt: bytes, salted_password: bytes
) -> ScramCredential:
    """The credential of a password that was salted with these iterations (RFC 5802, section 3)."""
    digest = _DIGESTS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return ScramCredential(
        iterations=iterations,
        salt=salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", digest),
    )
