"""SCRAM by the examples of RFC 7677 and RFC 5802, and every way to get it wrong."""

import base64
import hashlib
import hmac

import pytest

from highwater.gateway.login.scram_server import LoginRefused, ScramServer
from highwater.model.scram import ScramMechanism, salted_password, scram_credential

SHA_256 = ScramMechanism.SCRAM_SHA_256
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
UNPROVEN = b"c=biws,r=rOprNGfwEbeRWgbNEkqO" + NONCE.encode()
FINAL = UNPROVEN + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(password=b"pencil", mechanism=SHA_256):
    salted = salted_password(mechanism, password, salt=SALT, iterations=4096)
    return scram_credential(mechanism, iterations=4096, salt=SALT, salted_password=salted)


def server(mechanism=SHA_256, *, known=True):
    asked = []

    def find(user):
        asked.append(user)
        return credential(mechanism=mechanism), known

    made = ScramServer(mechanism, find=find, nonce=NONCE)
    made.asked = asked
    return made


def test_the_example_of_rfc_7677():
    one = server()
    assert one.first(FIRST) == CHALLENGE
    assert one.final(FINAL) == VERIFIER
    assert one.user == "user"
    assert one.asked == ["user"]


def proven(mechanism, challenge, unproven, gs2_and_bare, password=b"pencil"):
    """What an honest client of that password sends last."""
    digest = mechanism.mechanism_name.replace("SCRAM-", "").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(digest, password, SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    bare = gs2_and_bare.split(b",", 2)[2]
    signature = hmac.digest(stored_key, b",".join((bare, challenge, unproven)), digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return unproven + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=user,r=abc",
        b"y,,n=user,r=abc",
        b"n,a=user,n=user,r=abc",
        b"n,,n=user,r=abc,ext=1",
        b"n,,n=a=2Cb=3Dc,r=abc",
        "n,,n=größe,r=abc".encode(),
    ],
)
def test_what_clients_may_send(mechanism, first):
    one = server(mechanism)
    challenge = one.first(first)
    binding = base64.b64encode(first[: first.index(b"n=user") if b"n=user" in first else 3])
    unproven = b"c=" + binding + b",r=abc" + NONCE.encode()
    assert one.final(proven(mechanism, challenge, unproven, first)).startswith(b"v=")


def test_names_are_unescaped():
    one = server()
    one.first(b"n,,n=a=2Cb=3Dc,r=x")
    assert one.user == "a,b=c"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "malformed"),
        (b"n,,n=user", "malformed"),
        (b"n,,n=,r=x", "malformed"),
        (b"n,,n=user,r=", "malformed"),
        (b"n,,n=user,r=a b", "malformed"),
        (b"p=tls-unique,,n=user,r=x", "malformed"),
        (b"n,,m=ext,n=user,r=x", "malformed"),
        (b"n,,n=user,r=x\n", "malformed"),
        (b"n,,n=\xff,r=x", "UTF-8"),
        (b"n,,n=us=er,r=x", "bare '='"),
        (b"n,a=admin,n=user,r=x", "another user"),
        (b"n,,n=user,r=" + b"x" * 1025, "too long"),
        (b"n,,n=token,r=x,tokenauth=true", "delegation"),
    ],
)
def test_first_messages_that_are_refused(message, why):
    one = server()
    with pytest.raises(LoginRefused, match=why):
        one.first(message)
    assert one.asked == []


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "malformed"),
        (UNPROVEN, "malformed"),
        (UNPROVEN + b",p=", "malformed"),
        (UNPROVEN + b",p=dHzb", "wrong user or password"),
        (UNPROVEN + b",p=dHz", "not base64"),
        (FINAL.replace(b"c=biws", b"c=eSws"), "channel binding"),
        (FINAL.replace(b"rOpr", b"rOps"), "nonce"),
        (FINAL.replace(b"k0,p", b"k1,p"), "nonce"),
        (FINAL.replace(b"p=dHz", b"p=eHz"), "wrong user or password"),
        (FINAL.replace(b",p=", b",x=1,p="), "wrong user or password"),
    ],
)
def test_final_messages_that_are_refused(message, why):
    one = server()
    one.first(FIRST)
    with pytest.raises(LoginRefused, match=why):
        one.final(message)


def test_a_user_who_is_not_there_learns_it_last():
    one = server(known=False)
    assert one.first(FIRST) == CHALLENGE
    with pytest.raises(LoginRefused, match="wrong user or password"):
        one.final(FINAL)


def test_the_proof_of_another_login_is_worth_nothing():
    one = ScramServer(SHA_256, find=lambda _: (credential(), True), nonce="another")
    one.first(FIRST)
    with pytest.raises(LoginRefused, match="nonce"):
        one.final(FINAL)
