"""Logins by raw requests: what honest clients send, for tests that change it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from highwater.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from highwater.kafka.messages.sasl_handshake import SaslHandshakeRequest
from highwater.model.scram import ScramMechanism, digest_name, salted_password
from tests.support.wire import RawConnection, only

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 2
SALT = b"salt of the tests"
ITERATIONS = 4_096


def set_user(
    operator: RawConnection, user: str, password: str, *, iterations: int = ITERATIONS
) -> None:
    """Gives a user a password, for all mechanisms; `operator` may alter the cluster."""
    wanted = [
        AlterUserScramCredentialsRequestScramCredentialUpsertion(
            user,
            mechanism,
            iterations,
            SALT,
            salted_password(mechanism, password.encode(), salt=SALT, iterations=iterations),
        )
        for mechanism in ScramMechanism
    ]
    for one in wanted:  # A request may name a user once.
        answer = operator.ask(AlterUserScramCredentialsRequest(upsertions=[one]), 0)
        assert only(answer.results).error_code == ErrorCode.NONE, only(answer.results)


def choose(connection: RawConnection, mechanism: str) -> int:
    """The handshake; its code."""
    code: int = connection.ask(SaslHandshakeRequest(mechanism), HANDSHAKE_VERSION).error_code
    return code


def give(connection: RawConnection, token: bytes) -> Any:
    """One token; the answer."""
    return connection.ask(SaslAuthenticateRequest(token), AUTHENTICATE_VERSION)


def plain(user: str, password: str) -> bytes:
    """The token of PLAIN."""
    return f"\0{user}\0{password}".encode()


def log_in_by_plain(connection: RawConnection, user: str, password: str) -> int:
    """The code of the login."""
    assert choose(connection, "PLAIN") == ErrorCode.NONE
    code: int = give(connection, plain(user, password)).error_code
    return code


@dataclass(slots=True, kw_only=True)
class ScramClient:
    """The client's side of SCRAM (RFC 5802), each part of which a test may change."""

    mechanism: ScramMechanism
    user: str
    password: str
    nonce: str = "rOprNGfwEbeRWgbNEkqO"
    gs2: str = "n,,"

    @property
    def bare(self) -> str:
        return f"n={self.user},r={self.nonce}"

    def first(self) -> bytes:
        """client-first-message."""
        return (self.gs2 + self.bare).encode()

    def final(
        self,
        challenge: bytes,
        *,
        nonce: str | None = None,
        iterations: int | None = None,
        binding: bytes | None = None,
        salt: bytes | None = None,
    ) -> bytes:
        """client-final-message for a challenge; what is given is said in place of what it should be."""
        said = dict(part.split("=", 1) for part in challenge.decode().split(","))
        digest = digest_name(self.mechanism)
        salted = salted_password(
            self.mechanism,
            self.password.encode(),
            salt=base64.b64decode(said["s"]) if salt is None else salt,
            iterations=int(said["i"]) if iterations is None else iterations,
        )
        bound = base64.b64encode(self.gs2.encode() if binding is None else binding).decode()
        unproven = f"c={bound},r={said['r'] if nonce is None else nonce}"
        signed = f"{self.bare},{challenge.decode()},{unproven}".encode()
        client_key = hmac.digest(salted, b"Client Key", digest)
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()
