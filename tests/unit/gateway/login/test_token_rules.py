import hmac
import json
from dataclasses import replace

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_encode

from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.login.token_rules import (
    KEYS_OF_ID_MAX,
    TokenRules,
    check_token,
    key_id,
    parse_keys,
)
from tests.support.tokens import Issuer

NOW_S = 1_000_000.0
ANY = TokenRules(issuer="", audiences=(), user_claim="sub", skew_s=30)
ISSUER = Issuer("k1")
STRANGER = Issuer("k1")


def key_of(issuer):
    return parse_keys(json.loads(issuer.document()))["k1"]


KEY = key_of(ISSUER)


def token(**claims):
    return ISSUER.token(now_s=NOW_S, **claims)


def test_a_token_names_its_owner_and_its_end():
    assert check_token(token(), KEY, ANY, NOW_S) == ("alice", NOW_S + 300)


def test_elliptic_curves_sign_too():
    issuer = Issuer("k1", kind="EC")
    assert check_token(issuer.token(now_s=NOW_S), key_of(issuer), ANY, NOW_S).user == "alice"


@pytest.mark.parametrize(
    ("claims", "rules", "now_s", "why"),
    [
        ({}, ANY, NOW_S + 330, "expired"),
        ({"nbf": NOW_S + 31}, ANY, NOW_S, "not valid yet"),
        ({"exp": None}, ANY, NOW_S, "no claim exp"),
        ({"exp": "soon"}, ANY, NOW_S, "times"),
        ({"exp": True}, ANY, NOW_S, "times"),
        ({"exp": -1}, ANY, NOW_S, "times"),
        ({"iat": None}, ANY, NOW_S, "no claim iat"),
        ({"iat": float("nan")}, ANY, NOW_S, "times"),
        ({"sub": None}, ANY, NOW_S, "no claim sub"),
        ({"sub": ""}, ANY, NOW_S, "names nobody"),
        ({"sub": "half \ud800"}, ANY, NOW_S, "names nobody"),
        ({"sub": ["alice"]}, ANY, NOW_S, "not valid"),
        ({"exp": float("nan")}, ANY, NOW_S, "times"),
        ({"exp": float("inf")}, ANY, NOW_S, "times"),
        ({"nbf": float("nan")}, ANY, NOW_S, "times"),
        ({}, replace(ANY, user_claim="email"), NOW_S, "no claim email"),
        ({"email": 7}, replace(ANY, user_claim="email"), NOW_S, "names nobody"),
        ({}, replace(ANY, issuer="us"), NOW_S, "no claim iss|another issuer"),
        ({"iss": "them"}, replace(ANY, issuer="us"), NOW_S, "another issuer"),
        ({}, replace(ANY, audiences=("kafka",)), NOW_S, "no claim aud|another audience"),
        ({"aud": "anybody"}, ANY, NOW_S, "another audience"),
        ({"aud": ["web", "mail"]}, replace(ANY, audiences=("kafka",)), NOW_S, "another audience"),
    ],
)
def test_tokens_that_do_not_fit(claims, rules, now_s, why):
    with pytest.raises(LoginRefused, match=why):
        check_token(token(**claims), KEY, rules, now_s)


@pytest.mark.parametrize(
    ("claims", "rules", "now_s"),
    [
        ({}, ANY, NOW_S + 329),
        ({"nbf": NOW_S + 29}, ANY, NOW_S),
        ({"iat": NOW_S + 500}, ANY, NOW_S),
        ({"iss": "us"}, replace(ANY, issuer="us"), NOW_S),
        ({"aud": ["web", "kafka"]}, replace(ANY, audiences=("x", "kafka")), NOW_S),
        ({"email": "alice"}, replace(ANY, user_claim="email"), NOW_S),
    ],
)
def test_tokens_that_fit(claims, rules, now_s):
    assert check_token(token(**claims), KEY, rules, now_s).user == "alice"


def test_another_signature_is_refused():
    with pytest.raises(LoginRefused, match="InvalidSignatureError"):
        check_token(STRANGER.token(now_s=NOW_S), KEY, ANY, NOW_S)
    cut = token()[:-8]
    with pytest.raises(LoginRefused, match="not valid") as error:
        check_token(cut, KEY, ANY, NOW_S)
    assert cut not in str(error.value)


def test_nobody_signs_with_what_is_public():
    """Neither without a signature, nor with the public key as a shared secret."""
    claims = {"sub": "mallory", "exp": int(NOW_S + 60)}
    unsigned = jwt.encode(claims, "", algorithm="none")
    pem = ISSUER.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = b".".join(
        base64url_encode(json.dumps(one).encode()) for one in ({"alg": "HS256"}, claims)
    )
    mac = base64url_encode(hmac.digest(pem, text, "sha256"))
    shared = f"{text.decode()}.{mac.decode()}"
    for forged in (unsigned, shared):
        with pytest.raises(LoginRefused, match="InvalidAlgorithmError"):
            check_token(forged, KEY, ANY, NOW_S)


def parts(*contents):
    return ".".join(base64url_encode(one).decode() for one in contents)


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"RS256","kid":7}',
        b'{"alg":"RS256","kid":null}',
        b'{"alg":"RS256","kid":"k1","crit":["b64"],"b64":false}',
        b'{"alg":"RS256","kid":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"alg":"RS256","n":' + b"9" * 5_000 + b"}",
        b"[]",
        b"7",
        b"\xff",
        b"",
    ],
)
def test_headers_that_are_none(header):
    """Nobody has signed them yet when they are read."""
    with pytest.raises(LoginRefused, match="no JSON Web Token"):
        key_id(parts(header, b"{}", b"x"))


@pytest.mark.parametrize("algorithm", ['["RS256"]', '{"a":"RS256"}', "7", "null", '"rs256"', '""'])
def test_algorithms_that_are_none(algorithm):
    header = f'{{"alg":{algorithm},"kid":"k1"}}'.encode()
    claims = json.dumps({"sub": "mallory", "exp": NOW_S + 60}).encode()
    with pytest.raises(LoginRefused, match="InvalidAlgorithmError"):
        check_token(parts(header, claims, b"x" * 256), KEY, ANY, NOW_S)


def test_a_signed_token_that_is_too_deep():
    # Deeper than any Python reads: 3.13 decodes 5 000 lists, 3.11 does not.
    lists = b"[" * 100_000 + b"]" * 100_000
    deep = b'{"sub":"alice","iat":1000000,"exp":1000060,"x":' + lists + b"}"
    token = jwt.api_jws.encode(deep, ISSUER.key, algorithm="RS256", headers={"kid": "k1"})
    with pytest.raises(LoginRefused, match="not valid"):
        check_token(token, KEY, ANY, NOW_S)


def test_a_key_that_names_its_algorithm_is_for_no_other():
    found = parse_keys({"keys": [{**ISSUER.public, "alg": "RS512"}]})["k1"]
    assert [key.algorithms for key in found] == [("RS512",)]
    with pytest.raises(LoginRefused, match="InvalidAlgorithmError"):
        check_token(token(), found, ANY, NOW_S)


def test_keys_of_other_uses_are_left_out():
    entries = [
        ISSUER.public,
        {**ISSUER.public, "kid": "encryption", "use": "enc"},
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
        {"kty": "EC", "kid": "odd", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "RSA", "kid": "half"},
        "no key",
    ]
    assert list(parse_keys({"keys": entries})) == ["k1"]
    with pytest.raises(ValueError, match="list of keys"):
        parse_keys({"error": "not found"})


def test_which_key():
    assert key_id(token()) == "k1"
    assert key_id(ISSUER.token(headers={})) == ""
    with pytest.raises(LoginRefused, match="no JSON Web Token"):
        key_id("abc")


def test_keys_of_one_id_have_a_limit():
    entries = [{**ISSUER.public, "kid": "k1"}] * (KEYS_OF_ID_MAX + 1)
    assert len(parse_keys({"keys": entries})["k1"]) == KEYS_OF_ID_MAX
