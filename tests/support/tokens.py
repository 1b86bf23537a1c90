"""JSON Web Tokens and the keys that sign them, for tests."""

import json
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


class Issuer:
    """Somebody who issues tokens, with one key."""

    def __init__(self, kid: str = "k1", *, kind: str = "RSA") -> None:
        self.kid = kid
        self.key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
        if kind == "RSA":
            self.algorithm = "RS256"
            self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        else:
            self.algorithm = "ES256"
            self.key = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.public = {**public, "kid": kid, "use": "sig"}
        """The public key as an entry of a set."""

    def document(self, *others: "Issuer") -> bytes:
        """The set of keys, as it is published."""
        return json.dumps({"keys": [self.public, *(other.public for other in others)]}).encode()

    def token(
        self,
        user: str = "alice",
        *,
        now_s: float | None = None,
        good_s: float = 300,
        headers: dict[str, str] | None = None,
        **claims: object,
    ) -> str:
        """A token; claims of None are left out."""
        now_s = time.time() if now_s is None else now_s
        given = {"sub": user, "iat": int(now_s), "exp": int(now_s + good_s), **claims}
        given = {name: value for name, value in given.items() if value is not None}
        headers = {"kid": self.kid} if headers is None else headers
        return jwt.encode(given, self.key, algorithm=self.algorithm, headers=headers)


def message(token: str, acts_as: str = "") -> bytes:
    """The client's first message of OAUTHBEARER."""
    who = f"a={acts_as}" if acts_as else ""
    return f"n,{who},\x01auth=Bearer {token}\x01\x01".encode()
