import pytest

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.mechanisms import PASSWORD_BYTES_MAX, Mechanisms
from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.login.users import Users
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.scram import SASL_MECHANISMS, ScramKey, ScramMechanism
from tests.unit.gateway.login.test_scram_server import (
    CHALLENGE,
    FINAL,
    FIRST,
    NONCE,
    VERIFIER,
    credential,
)

SHOP, BANK = InstanceId("shop"), InstanceId("bank")
OPEN = frozenset((DEFAULT_INSTANCE, SHOP))
"""Instances that tokens open."""


@pytest.fixture
def mechanisms():
    known = {
        ScramKey(DEFAULT_INSTANCE, "user", mechanism): credential(mechanism=mechanism)
        for mechanism in ScramMechanism
    }

    async def on_thread(check):
        return check()

    users = Users(lambda: known, lambda: b"secret")
    return Mechanisms(
        users,
        nonce=lambda: NONCE,
        on_thread=lambda _instance: on_thread,
        takes_tokens=OPEN.__contains__,
    )


def test_their_names_are_kafka_s():
    assert SASL_MECHANISMS == ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")


@pytest.mark.parametrize(
    ("names", "instance", "offered"),
    [
        (SASL_MECHANISMS, DEFAULT_INSTANCE, SASL_MECHANISMS),
        (SASL_MECHANISMS, SHOP, SASL_MECHANISMS),
        (SASL_MECHANISMS, BANK, SASL_MECHANISMS[:3]),
        (("OAUTHBEARER",), BANK, ()),
        (("PLAIN",), BANK, ("PLAIN",)),
    ],
)
def test_tokens_are_offered_where_they_are_taken(mechanisms, names, instance, offered):
    assert mechanisms.offered(names, instance) == offered


async def test_scram_takes_two_tokens(mechanisms):
    exchange = mechanisms.begin("SCRAM-SHA-256", DEFAULT_INSTANCE)
    assert await exchange.take(FIRST) == Step(CHALLENGE, None)
    assert await exchange.take(FINAL) == Step(VERIFIER, "user")


@pytest.mark.parametrize("token", [b"\0user\0pencil", b"user\0user\0pencil"])
async def test_plain_takes_one(mechanisms, token):
    exchange = mechanisms.begin("PLAIN", DEFAULT_INSTANCE)
    assert await exchange.take(token) == Step(b"", "user")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (b"", "malformed"),
        (b"user\0pencil", "malformed"),
        (b"\0user\0pen\0cil", "malformed"),
        (b"\0\0pencil", "no user"),
        (b"\0user\0", "no user"),
        (b"\0user\0" + b"x" * (PASSWORD_BYTES_MAX + 1), "too long"),
        (b"admin\0user\0pencil", "another user"),
        (b"\0\xff\0pencil", "UTF-8"),
        (b"\0user\0pencils", "wrong user or password"),
        (b"\0nobody\0pencil", "wrong user or password"),
    ],
)
async def test_plain_refuses(mechanisms, token, why):
    with pytest.raises(LoginRefused, match=why):
        await mechanisms.begin("PLAIN", DEFAULT_INSTANCE).take(token)
