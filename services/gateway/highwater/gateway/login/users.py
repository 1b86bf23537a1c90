"""The users of an instance, as logins look them up: SCRAM credentials of the newest image.

PLAIN checks the password against the same credentials, so that there is one list of users. That costs
as many hashes as the credential has iterations, some ms, and so happens on a thread.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from highwater.model.ids import InstanceId
from highwater.model.scram import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramKey,
    ScramMechanism,
    salted_password,
    scram_credential,
)

SALT_BYTES: Final = 16
_PLAIN_ORDER: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)


class Users:
    """Lives as long as the gateway."""

    def __init__(self, credentials: Callable[[], Mapping[ScramKey, ScramCredential]]) -> None:
        """`credentials` returns those of the newest image."""
        self._credentials = credentials
        self._secret = secrets.token_bytes(32)
        """Of this process: salts of users who are not there do not change from login to login."""

    def find(
        self, instance: InstanceId, user: str, mechanism: ScramMechanism
    ) -> tuple[ScramCredential, bool]:
        """A user's credential and True; or one that looks like any other, and False."""
        found = self._credentials().get(ScramKey(instance, user, mechanism))
        return (self._nobody(user, mechanism), False) if found is None else (found, True)

    def password_check(
        self, instance: InstanceId, user: str, password: bytes
    ) -> Callable[[], bool]:
        """What tells whether it is the user's password; to be called on another thread.

        It takes as long for a user who is not there.
        """
        for mechanism in _PLAIN_ORDER:
            credential, is_known = self.find(instance, user, mechanism)
            if is_known:
                break
        expected = credential.stored_key

        def check() -> bool:
            made = scram_credential(
                mechanism,
                iterations=credential.iterations,
                salt=credential.salt,
                salted_password=salted_password(
                    mechanism,
                    password,
                    salt=credential.salt,
                    iterations=credential.iterations,
                ),
            )
            return hmac.compare_digest(made.stored_key, expected) and is_known

        return check

    def _nobody(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        seed = hmac.digest(self._secret, f"{mechanism:d} {user}".encode(), "sha512")
        return ScramCredential(
            iterations=ITERATIONS_MIN,
            salt=seed[:SALT_BYTES],
            stored_key=hashlib.sha512(seed).digest(),
            server_key=seed,
        )
