"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554).

The rules are those of Kafka's `ScramControlManager` and `ScramImage`; the length of names and salts
and the number of credentials have limits.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.controller.core.change_instances import closed_instance
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)

CREDENTIALS_MAX: Final = 10_000
"""Credentials in one instance: the controller has them in memory, less than 2 KiB each."""

USER_LENGTH_MAX: Final = 1_024
SALT_BYTES_MAX: Final = 1_024

_MECHANISMS: Final = frozenset(ScramMechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramChange:
    """The change of one credential; `mechanism` as the client gave it."""

    user: str
    mechanism: int
    credential: ScramCredential | None
    """None removes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUser:
    """What is told of a user: iterations by mechanism, or why nothing is."""

    user: str
    refusal: Refusal | None
    iterations: tuple[tuple[ScramMechanism, int], ...] = ()


def alter_scram_users(
    image: ClusterImage, instance: InstanceId, changes: Sequence[ScramChange]
) -> Decision[dict[str, Refusal | None]]:
    """The changed credentials, and each user's outcome; None is success.

    Deletions come first in `changes`. A user who is named twice, for whatever mechanism, is not
    changed at all.
    """
    outcomes: dict[str, Refusal | None] = {}
    accepted: dict[str, tuple[ScramKey, ScramCredential | None]] = {}
    closed = closed_instance(image, instance)
    if closed is not None:
        return Decision(delta=None, result=dict.fromkeys((c.user for c in changes), closed))
    count = sum(1 for key in image.scram_credentials if key.instance == instance)
    for change in changes:
        user = change.user
        if outcomes.get(user) is not None:
            continue
        if user in outcomes:
            del accepted[user]
            why = "A user credential cannot be altered twice in the same request"
            outcomes[user] = Refusal(code=ErrorCode.DUPLICATE_RESOURCE, message=why)
            continue
        key = _checked_key(image, instance, change)
        if isinstance(key, Refusal):
            outcomes[user] = key
            continue
        if change.credential is not None and key not in image.scram_credentials:
            if count >= CREDENTIALS_MAX:
                why = f"No more than {CREDENTIALS_MAX} credentials can be kept"
                outcomes[user] = Refusal(code=ErrorCode.POLICY_VIOLATION, message=why)
                continue
            count += 1
        outcomes[user] = None
        accepted[user] = key, change.credential
    delta = None
    if accepted:
        delta = ClusterDelta(revision=PENDING_REVISION, scram_credentials=dict(accepted.values()))
    return Decision(delta=delta, result=outcomes)


def describe_scram_users(
    image: ClusterImage, instance: InstanceId, users: Sequence[str]
) -> list[ScramUser]:
    """Each user once; all users of the instance if none is named."""
    known = image.scram_credentials
    wanted = Counter(users or sorted({key.user for key in known if key.instance == instance}))
    found: list[ScramUser] = []
    for user, times in wanted.items():
        kept = ((one, known.get(ScramKey(instance, user, one))) for one in ScramMechanism)
        iterations = tuple((one, each.iterations) for one, each in kept if each is not None)
        found.append(_described(user, times, iterations))
    return found


def _described(
    user: str, times: int, iterations: tuple[tuple[ScramMechanism, int], ...]
) -> ScramUser:
    if times > 1:
        why = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
        return ScramUser(user=user, refusal=Refusal(code=ErrorCode.DUPLICATE_RESOURCE, message=why))
    if not iterations:
        why = f"Attempt to describe a user credential that does not exist: {user}"
        return ScramUser(user=user, refusal=Refusal(code=ErrorCode.RESOURCE_NOT_FOUND, message=why))
    return ScramUser(user=user, refusal=None, iterations=iterations)


def _checked_key(
    image: ClusterImage, instance: InstanceId, change: ScramChange
) -> ScramKey | Refusal:
    """The key of the credential to change."""
    if not change.user:
        return _unacceptable("Username must not be empty")
    if change.mechanism not in _MECHANISMS:
        why = "Unknown SCRAM mechanism"
        return Refusal(code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, message=why)
    key = ScramKey(instance, change.user, ScramMechanism(change.mechanism))
    credential = change.credential
    if credential is None:
        if key in image.scram_credentials:
            return key
        why = "Attempt to delete a user credential that does not exist"
        return Refusal(code=ErrorCode.RESOURCE_NOT_FOUND, message=why)
    if credential.iterations < ITERATIONS_MIN:
        return _unacceptable("Too few iterations")
    if credential.iterations > ITERATIONS_MAX:
        return _unacceptable("Too many iterations")
    if len(change.user) > USER_LENGTH_MAX:
        return _unacceptable(f"A username has at most {USER_LENGTH_MAX} characters")
    if len(credential.salt) > SALT_BYTES_MAX:
        return _unacceptable(f"A salt has at most {SALT_BYTES_MAX} bytes")
    return key


def _unacceptable(message: str) -> Refusal:
    return Refusal(code=ErrorCode.UNACCEPTABLE_CREDENTIAL, message=message)
