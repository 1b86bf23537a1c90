"""What attackers say before a login: conversations out of order, with tokens that are nearly right.

Nothing here logs in: passwords are wrong, proofs are random and tokens are signed by nobody's key.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jwt

from highwater.kafka.api_keys import ApiKey
from tests.robustness.fuzz.generator import Offered, RequestGenerator
from tests.robustness.fuzz.mutations import framed, mutate
from tests.robustness.fuzz.tokens import Kind, Token, joined, number
from tests.support.tokens import Issuer, message

PERMITTED = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""What is answered before a login."""
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")

FORGED = "FORGED-LINE"
"""What a line of the log would begin with if a name had broken it."""
GUESS = "guessed-secret"
"""Part of all that attackers send as a password, a token or a proof."""
_EVIL = (
    f"\n{FORGED}",
    f'\r\n{FORGED} {{"event": "x"}}',
    f"\u2028{FORGED}\x1b[2J",
    f"\x0b{FORGED}\x00",
    "\x7f\x9b" + "{}%s%n",
    "a" * 300,
)
_USERS = ("alice", "nobody", "", "ANONYMOUS", "User:alice", "alice\x00admin", "ali,ce", "=2C", "*")
_FLEXIBLE_AUTHENTICATE = 2
_FLEXIBLE_VERSIONS = 3
_CLEAN_SHARE = 0.6
"""Of the frames of a conversation, so that many come as far as the mechanism."""

Answer = bytes
"""The token that the server sent last; empty if it has sent none."""


class LoginGenerator:
    """Makes conversations from one random source: the same source and answers give the same ones."""

    def __init__(self, chance: random.Random, offered: Offered, tokens: Sequence[str]) -> None:
        """`tokens` are JSON Web Tokens that are good for nothing (`bad_tokens`)."""
        self._chance = chance
        self._others = RequestGenerator(chance, offered)
        self._tokens = tokens
        self._correlation_id = 0

    def conversation(self) -> Iterator[Callable[[Answer], bytes]]:
        """What is sent on one connection, each made of the last answer."""
        chance = self._chance
        kind = chance.random()
        if kind < 0.55:
            yield from self._login()
        elif kind < 0.75:
            for _ in range(chance.randint(1, 6)):
                yield self._any
        else:
            for _ in range(chance.randint(1, 3)):
                yield lambda _answer: mutate(self._next(self._others.request(0)[2]), chance)

    def _login(self) -> Iterator[Callable[[Answer], bytes]]:
        chance = self._chance
        if chance.random() < 0.3:
            yield lambda _answer: self._sent(self._versions())
        mechanism = chance.choice(MECHANISMS)
        yield lambda _answer: self._sent(self._handshake(mechanism))
        for turn in range(chance.choice((1, 2, 2, 2, 3))):
            # Now and then a token of another mechanism than the one that was chosen.
            said = mechanism if chance.random() < 0.9 else chance.choice(MECHANISMS)
            yield partial(self._answered, said, turn)
        if chance.random() < 0.5:
            yield lambda _answer: self._sent(self._next(self._others.request(0)[2]))

    def _answered(self, mechanism: str, turn: int, answer: Answer) -> bytes:
        return self._sent(self._authenticate(self._token(mechanism, turn, answer)))

    def _any(self, answer: Answer) -> bytes:
        chance = self._chance
        mechanism = chance.choice(MECHANISMS)
        tokens = chance.choice(
            (
                self._versions,
                lambda: self._handshake(chance.choice((*MECHANISMS, "", "GSSAPI", *_EVIL))),
                lambda: self._authenticate(self._token(mechanism, chance.randint(0, 1), answer)),
                lambda: self._next(self._others.request(0)[2]),
            )
        )()
        return self._sent(tokens)

    def _sent(self, tokens: list[Token]) -> bytes:
        if self._chance.random() < _CLEAN_SHARE:
            return framed(joined(tokens))
        return mutate(tokens, self._chance)

    # ---- requests ----

    def _next(self, tokens: list[Token]) -> list[Token]:
        """Gives a request of the other generator a correlation id and a client id of its own."""
        self._correlation_id += 1
        return [*tokens[:2], number(Kind.VALUE, self._correlation_id, 4), *tokens[3:]]

    def _header(self, key: ApiKey, version: int) -> list[Token]:
        self._correlation_id += 1
        client = self._chance.choice(("login", "", *_EVIL)).encode()
        return [
            number(Kind.VALUE, key, 2),
            number(Kind.VALUE, version, 2),
            number(Kind.VALUE, self._correlation_id, 4),
            number(Kind.LENGTH, len(client), 2),
            Token(kind=Kind.BYTES, content=client),
        ]

    def _versions(self) -> list[Token]:
        version = self._chance.choice((0, 3, 4, 99))
        tokens = self._header(ApiKey.API_VERSIONS, version)
        if version >= _FLEXIBLE_VERSIONS:
            tokens.append(_no_tags())
            for text in (self._chance.choice(("software", *_EVIL)), "1.0"):
                tokens += _bytes(text.encode(), 2, compact=True)
            tokens.append(_no_tags())
        return tokens

    def _handshake(self, mechanism: str) -> list[Token]:
        version = self._chance.choice((1, 1, 1, 1, 0, 2))
        tokens = self._header(ApiKey.SASL_HANDSHAKE, version)
        return [*tokens, *_bytes(mechanism.encode(), 2)]

    def _authenticate(self, token: bytes) -> list[Token]:
        version = self._chance.choice((0, 1, 2))
        tokens = self._header(ApiKey.SASL_AUTHENTICATE, version)
        if version < _FLEXIBLE_AUTHENTICATE:
            return [*tokens, *_bytes(token, 4)]
        return [*tokens, _no_tags(), *_bytes(token, 4, compact=True), _no_tags()]

    # ---- tokens of mechanisms ----

    def _token(self, mechanism: str, turn: int, answer: Answer) -> bytes:
        chance = self._chance
        user = chance.choice((*_USERS, *_EVIL))
        if mechanism == "PLAIN":
            token = f"{chance.choice(('', '', user, 'root'))}\0{user}\0{GUESS}".encode()
        elif mechanism == "OAUTHBEARER":
            token = chance.choice((message(chance.choice(self._tokens), user), b"\x01", b"n,,\x01"))
        elif turn == 0 or not answer:
            token = self._scram_first(user)
        else:
            token = self._scram_final(answer)
        return self._broken(token) if chance.random() < 0.4 else token

    def _scram_first(self, user: str) -> bytes:
        chance = self._chance
        header = chance.choice(
            ("n,,", "n,,", "y,,", "p=tls-unique,,", "p=tls-exporter,,", f"n,a={user},", "n,")
        )
        nonce = chance.choice((f"n{chance.randrange(1 << 40)}", "", "x" * 1_025, "a b", "\u00e9"))
        more = chance.choice(("", "", ",m=must", ",tokenauth=true", ",ext=" + "x" * 2_000))
        return f"{header}n={user},r={nonce}{more}".encode()

    def _scram_final(self, answer: Answer) -> bytes:
        chance = self._chance
        nonce = answer.partition(b",")[0].removeprefix(b"r=")
        nonce = chance.choice((nonce, nonce, nonce[:-1], nonce + b"x", b"", b"r" * 3_000))
        binding = base64.b64encode(chance.choice((b"n,,", b"n,,", b"y,,", b"p=tls-unique,,", b"")))
        proof = GUESS.encode() + chance.randbytes(chance.choice((18, 50, 0, 4_000)))
        return b"c=" + binding + b",r=" + nonce + b",p=" + base64.b64encode(proof)

    def _broken(self, token: bytes) -> bytes:
        chance = self._chance
        place = chance.randrange(len(token) + 1)
        how = chance.randrange(6)
        if how == 0:
            return token[:place]
        if how == 1:
            return token[:place] + chance.choice(_EVIL).encode() + token[place:]
        if how == 2:
            return token[:place] + bytes(chance.choice((1, 100, 20_000, 65_400))) + token[place:]
        if how == 3:
            return token[:place] + b"\xff\xc0\x80" + token[place:]
        if how == 4:
            return chance.randbytes(chance.choice((0, 1, 30, 16_385)))
        return token + token


def bad_tokens(issuer: Issuer, audience: str) -> list[str]:
    """JSON Web Tokens for alice that are not accepted, each for another reason."""
    stranger = Issuer(issuer.kid)
    claims = {"sub": "alice", "aud": audience, "exp": 1 << 40, "jti": GUESS}
    good = issuer.token(aud=audience, jti=GUESS)
    head, body, signature = good.split(".")
    deep = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 5_000).decode().rstrip("=")
    return [
        jwt.encode(claims, "", algorithm="none"),
        jwt.encode(claims, "guessed-secret-guessed-secret-guessed", algorithm="HS256"),
        stranger.token(aud=audience, jti=GUESS),
        issuer.token(aud="somebody else", jti=GUESS),
        issuer.token(aud=audience, good_s=-1_000, jti=GUESS),
        issuer.token("\ud800", aud=audience, jti=GUESS),
        issuer.token("ANONYMOUS", aud=audience, jti=GUESS),
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}.",
        f"{deep}.{body}.{signature}",
        GUESS,
    ]


def _bytes(content: bytes, size: int, *, compact: bool = False) -> list[Token]:
    return [
        number(Kind.LENGTH, len(content), size, compact=compact),
        Token(kind=Kind.BYTES, content=content),
    ]


def _no_tags() -> Token:
    return number(Kind.COUNT, -1, 4, compact=True)
