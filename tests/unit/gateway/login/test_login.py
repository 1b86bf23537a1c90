"""The table of `login`, row by row."""

import pytest

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.login import AGAIN_MS_MIN, Login, LoginState
from highwater.gateway.login.scram_server import LoginRefused
from highwater.kafka.error_codes import ErrorCode


class Exchange:
    """Two tokens: anything, and then who the client is."""

    def __init__(self):
        self.tokens = []

    async def take(self, token):
        self.tokens.append(token)
        if token == b"wrong":
            raise LoginRefused("wrong")
        return Step(b"more") if len(self.tokens) == 1 else Step(b"done", token.decode())


class World:
    def __init__(self, *, may_repeat=True):
        self.now_ms = 0
        self.begun = []
        self.login = Login(
            ("A", "B"), self.begin, may_repeat=may_repeat, now_ms=lambda: self.now_ms
        )

    def begin(self, name):
        self.begun.append(name)
        return Exchange()

    async def log_in(self, user=b"alice"):
        assert self.login.handshake("A") == ErrorCode.NONE
        await self.login.take(b"hello")
        return await self.login.take(user)


async def test_a_login():
    w = World()
    assert w.login.state is LoginState.NEW
    assert w.login.handshake("B") == ErrorCode.NONE
    assert (w.login.state, w.login.mechanism, w.begun) == (LoginState.EXCHANGING, "B", ["B"])
    assert await w.login.take(b"hello") == Step(b"more")
    assert w.login.state is LoginState.EXCHANGING
    assert await w.login.take(b"alice") == Step(b"done", "alice")
    assert (w.login.state, w.login.user) == (LoginState.IN, "alice")


def test_a_mechanism_that_is_not_offered():
    w = World()
    assert w.login.handshake("C") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert w.login.state is LoginState.FAILED
    assert w.login.handshake("A") == ErrorCode.ILLEGAL_SASL_STATE
    assert w.begun == []


@pytest.mark.parametrize("before", [0, 1])
async def test_a_token_that_is_refused(before):
    w = World()
    w.login.handshake("A")
    for _ in range(before):
        await w.login.take(b"hello")
    with pytest.raises(LoginRefused):
        await w.login.take(b"wrong")
    assert (w.login.state, w.login.user) == (LoginState.FAILED, "")


def test_two_handshakes():
    w = World()
    w.login.handshake("A")
    assert w.login.handshake("A") == ErrorCode.ILLEGAL_SASL_STATE
    assert w.login.state is LoginState.FAILED


async def test_a_login_again():
    w = World()
    await w.log_in()
    w.now_ms += AGAIN_MS_MIN
    await w.log_in()
    assert (w.login.state, w.login.user) == (LoginState.IN, "alice")
    assert w.begun == ["A", "A"]


async def test_a_login_again_as_another_user():
    w = World()
    await w.log_in()
    w.now_ms += AGAIN_MS_MIN
    with pytest.raises(LoginRefused, match="another user"):
        await w.log_in(b"bob")
    assert (w.login.state, w.login.user) == (LoginState.FAILED, "alice")


async def test_a_login_again_by_another_mechanism():
    w = World()
    await w.log_in()
    w.now_ms += AGAIN_MS_MIN
    assert w.login.handshake("B") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert w.login.state is LoginState.FAILED


@pytest.mark.parametrize(("may_repeat", "after_ms"), [(True, AGAIN_MS_MIN - 1), (False, 10**6)])
async def test_a_login_again_too_soon_or_where_none_expires(may_repeat, after_ms):
    w = World(may_repeat=may_repeat)
    await w.log_in()
    w.now_ms += after_ms
    assert w.login.handshake("A") == ErrorCode.ILLEGAL_SASL_STATE
    assert w.login.state is LoginState.IN
