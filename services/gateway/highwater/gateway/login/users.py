"""The users of an instance, as logins look them up: SCRAM credentials of the newest image.

PLAIN checks the password against the same credentials, so that there is one list of users. That costs
as many hashes as the credential has iterations, some ms, and so happens on a thread.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final

from highwater.model.ids import InstanceId
from highwater.model.scram import (
    ITERATIONS_DEFAULT,
    MECHANISM_DEFAULT,
    SALT_BYTES_DEFAULT,
    ScramCredential,
    ScramKey,
    ScramMechanism,
    salted_password,
    scram_credential,
)

_PLAIN_ORDER: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)


class Users:
    """Lives as long as the gateway."""

    def __init__(
        self,
        credentials: Callable[[], Mapping[ScramKey, ScramCredential]],
        secret: Callable[[], bytes],
    ) -> None:
        """`credentials` returns those of the newest image. `secret` is the cluster's: the salts of users who
        are not there are the same at all gateways, and after a restart, as those of others are.
        """
        self._credentials = credentials
        self._secret = secret

    def find(
        self, instance: InstanceId, user: str, mechanism: ScramMechanism
    ) -> tuple[ScramCredential, bool]:
        """A user's credential and True; or one that looks like any other, and False."""
        found = self._credentials().get(ScramKey(instance, user, mechanism))
        if found is None:
            return self._nobody(instance, user, mechanism), False
        return found, True

    def password_check(
        self, instance: InstanceId, user: str, password: bytes
    ) -> Callable[[], bool]:
        """What tells whether it is the user's password; to be called on another thread.

        It takes as long for a user who is not there as for one with a password as users get it by default.
        """
        for mechanism in _PLAIN_ORDER:
            credential, is_known = self.find(instance, user, mechanism)
            if is_known:
                break
        else:
            mechanism = MECHANISM_DEFAULT
            credential, is_known = self.find(instance, user, mechanism)
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

    def _nobody(
        self, instance: InstanceId, user: str, mechanism: ScramMechanism
    ) -> ScramCredential:
        """As users get it by default, and another one for the same name in another instance."""
        whom = f"{instance} {mechanism:d} {user}".encode()
        seed = hmac.digest(self._secret(), whom, "sha512")
        return ScramCredential(
            iterations=ITERATIONS_DEFAULT,
            salt=seed[:SALT_BYTES_DEFAULT],
            stored_key=hashlib.sha512(seed).digest(),
            server_key=seed,
        )
