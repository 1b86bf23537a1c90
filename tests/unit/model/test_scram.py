import hashlib

import pytest

from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism, scram_credential

SALT = bytes.fromhex("5b6d99683925eae0e12d48b3b5c1d8d9")[:12]


def salted(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """What a client sends (RFC 5802's Hi)."""
    return hashlib.pbkdf2_hmac(mechanism, password, salt, iterations)


def test_the_example_of_rfc_7677():
    """User "user", password "pencil": the client's proof in the RFC gives back StoredKey."""
    import base64
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    made = scram_credential(
        ScramMechanism.SCRAM_SHA_256,
        iterations=4096,
        salt=salt,
        salted_password=salted("sha256", b"pencil", salt, 4096),
    )
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,"
        f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    ).encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(made.stored_key, message, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == made.stored_key
    verifier = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert hmac.digest(made.server_key, message, "sha256") == verifier


@pytest.mark.parametrize(
    ("mechanism", "name", "size"),
    [
        (ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-256", 32),
        (ScramMechanism.SCRAM_SHA_512, "SCRAM-SHA-512", 64),
    ],
)
def test_mechanisms(mechanism, name, size):
    assert mechanism.mechanism_name == name
    made = scram_credential(mechanism, iterations=4096, salt=SALT, salted_password=b"x")
    assert (made.iterations, made.salt) == (4096, SALT)
    assert (len(made.stored_key), len(made.server_key)) == (size, size)
    assert made.stored_key != made.server_key


def test_secrets_are_not_shown():
    credential = ScramCredential(
        iterations=4096, salt=b"secret", stored_key=b"secret", server_key=b"secret"
    )
    key = ScramKey(DEFAULT_INSTANCE, "a", ScramMechanism.SCRAM_SHA_256)
    image = ClusterImage(revision=1, cluster_id="c")
    delta = ClusterDelta(revision=2, scram_credentials={key: credential})
    for shown in (credential, delta, image.apply(delta)):
        assert "secret" not in repr(shown)
        assert "iterations=4096" in repr(shown)


def test_an_image_forgets_removed_credentials():
    key = ScramKey(DEFAULT_INSTANCE, "a", ScramMechanism.SCRAM_SHA_256)
    credential = ScramCredential(iterations=1, salt=b"", stored_key=b"", server_key=b"")
    image = ClusterImage(revision=1, cluster_id="c")
    image = image.apply(ClusterDelta(revision=2, scram_credentials={key: credential}))
    assert image.scram_credentials == {key: credential}
    assert image.apply(ClusterDelta(revision=3)).scram_credentials is image.scram_credentials
    gone = image.apply(ClusterDelta(revision=3, scram_credentials={key: None}))
    assert gone.scram_credentials == {}
