"""What a JSON Web Token has to be like to log in with (RFC 7519; Kafka: `BrokerJwtValidator`, KIP-768)."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jwt

from highwater.gateway.login.scram_server import LoginRefused

_BY_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""Signatures by the type of the key. None that anybody could make who knows the public key."""


KEYS_OF_ID_MAX: Final = 16
"""Keys that have one id, or none: so many signatures a login may cost at most."""

_OF_ANOTHER_KEY: Final = (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError)


class PublicKey(NamedTuple):
    """A key of the issuer's set."""

    key: Any
    """As the library has it."""
    algorithms: tuple[str, ...]


class TokenOwner(NamedTuple):
    """Whom a token names."""

    user: str
    expires_s: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """As in Kafka's sasl.oauthbearer settings: expected.issuer, empty for any; expected.audience, where
    without one a token may name none (jose4j's default); sub.claim.name; clock.skew.seconds.
    """

    issuer: str
    audiences: tuple[str, ...]
    user_claim: str
    skew_s: float


def parse_keys(document: Mapping[str, Any]) -> dict[str, tuple[PublicKey, ...]]:
    """The keys of a set (RFC 7517) by their ids; keys that are for no signature of ours are left out.

    Keys without an id have the empty one. Raises ValueError if it is no set of keys.
    """
    entries = document.get("keys")
    if not isinstance(entries, list):
        raise ValueError("it has no list of keys")  # noqa: TRY004 - as of any bad document.
    found: dict[str, tuple[PublicKey, ...]] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        usable = _BY_TYPE.get(str(entry.get("kty")), ())
        algorithms = tuple(one for one in usable if entry.get("alg", one) == one)
        if not algorithms:
            continue
        try:
            key = jwt.PyJWK(entry, algorithms[0]).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue  # Of a curve, say, that we have not: tokens of the other keys are good all the same.
        kid = str(entry.get("kid", ""))
        of_id = found.get(kid, ())
        if len(of_id) < KEYS_OF_ID_MAX:
            found[kid] = (*of_id, PublicKey(key, algorithms))
    return found


def key_id(token: str) -> str:
    """Which key the token says that it is signed with; empty if it does not. Raises LoginRefused."""
    try:
        found = jwt.get_unverified_header(token).get("kid", "")
    except jwt.PyJWTError:
        raise LoginRefused("the token is no JSON Web Token") from None
    return str(found)


def check_token(
    token: str, keys: Sequence[PublicKey], rules: TokenRules, now_s: float
) -> TokenOwner:
    """Whom the token names, which one of these keys has signed.

    Raises LoginRefused, without anything of the token in the words.
    """
    try:
        claims = _verified(token, keys, rules)
    except jwt.MissingRequiredClaimError as error:
        raise LoginRefused(f"the token has no claim {error.claim}") from None
    except jwt.InvalidAudienceError:
        raise LoginRefused("the token is for another audience") from None
    except jwt.InvalidIssuerError:
        raise LoginRefused("the token is from another issuer") from None
    except jwt.PyJWTError as error:
        raise LoginRefused(f"the token is not valid ({type(error).__name__})") from None
    user, expires, begins = claims[rules.user_claim], claims["exp"], claims.get("nbf", 0)
    if not isinstance(user, str) or not user or not _is_text(user):
        raise LoginRefused(f"the token's claim {rules.user_claim} names nobody")
    if not all(map(_is_time, (expires, begins, claims["iat"]))):
        raise LoginRefused("the token's times are no numbers")
    if now_s >= expires + rules.skew_s:
        raise LoginRefused("the token has expired")
    if now_s < begins - rules.skew_s:
        raise LoginRefused("the token is not valid yet")
    return TokenOwner(user, float(expires))


def _verified(token: str, keys: Sequence[PublicKey], rules: TokenRules) -> dict[str, Any]:
    """The token's claims, by the first of the keys that fits. Raises PyJWTError."""
    *others, last = keys
    for key in others:
        with contextlib.suppress(*_OF_ANOTHER_KEY):
            return _decoded(token, key, rules)
    return _decoded(token, last, rules)


def _decoded(token: str, key: PublicKey, rules: TokenRules) -> dict[str, Any]:
    # Times are checked by a clock that comes in as an argument.
    return jwt.decode(
        token,
        key.key,
        algorithms=list(key.algorithms),
        audience=rules.audiences or None,
        issuer=rules.issuer or None,
        options={
            "require": ["exp", "iat", rules.user_claim],
            "verify_aud": True,
            "verify_iss": bool(rules.issuer),
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
        },
    )


def _is_text(value: str) -> bool:
    """False for half of a surrogate pair, which JSON can escape and no other protocol can carry."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53
