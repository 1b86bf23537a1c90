import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.key_set import KeySet
from highwater.gateway.login.oauth import TOKEN_BYTES_MAX, OAuthExchange, TokenLogins
from highwater.gateway.login.oauth_message import ACKNOWLEDGEMENT
from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.login.token_rules import TokenRules
from highwater.runtime.logging import silent_logger
from tests.support.tokens import Issuer, message

NOW_S = 1_000_000.0
ISSUER = Issuer(kind="EC")


@pytest.fixture
def logins():
    with ThreadPoolExecutor(1) as reading:
        keys = KeySet(
            "https://issuer/keys",
            refresh_s=100,
            reading=reading,
            now_s=lambda: 0.0,
            log=silent_logger(),
            read=lambda _: ISSUER.document(),
        )
        rules = TokenRules(issuer="", audiences=(), user_claim="sub", skew_s=30)
        yield TokenLogins(keys, rules, now_s=lambda: NOW_S)


async def on_thread(work):
    return work()


def begin(logins, audiences=()):
    return OAuthExchange(logins, lambda: audiences, on_thread)


@pytest.mark.parametrize("acts_as", ["", "alice"])
async def test_a_token_logs_in_for_as_long_as_it_is_good(logins, acts_as):
    sent = message(ISSUER.token(now_s=NOW_S), acts_as)
    assert await begin(logins).take(sent) == Step(b"", "alice", 300_000)


async def test_a_token_that_has_just_expired_is_good_for_a_moment(logins):
    sent = message(ISSUER.token(now_s=NOW_S, good_s=-10))
    assert await begin(logins).take(sent) == Step(b"", "alice", 1)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"nonsense", "malformed"),
        (message("a.b.c"), "no JSON Web Token"),
        (message("x" * TOKEN_BYTES_MAX), "more than"),
        (message(Issuer("other", kind="EC").token(now_s=NOW_S)), "not in the issuer's set"),
        (message(Issuer(kind="EC").token(now_s=NOW_S)), "InvalidSignatureError"),
        (message(ISSUER.token(now_s=NOW_S, good_s=-31)), "expired"),
        (message(ISSUER.token(now_s=NOW_S), "bob"), "another user"),
    ],
)
@pytest.mark.parametrize("answer", [ACKNOWLEDGEMENT, b"something else"])
async def test_a_refusal_takes_two_steps(logins, sent, why, answer):
    exchange = begin(logins)
    told = await exchange.take(sent)
    assert json.loads(told.token) == {"status": "invalid_token"}
    assert told.user is None
    with pytest.raises(LoginRefused, match=why):
        await exchange.take(answer)


async def test_each_key_without_an_id_is_tried():
    """Two keys of a set without ids, as while one replaces the other."""
    issuers = [Issuer(kind="EC"), Issuer(), Issuer(kind="EC")]
    for issuer in issuers:
        del issuer.public["kid"]
    with ThreadPoolExecutor(1) as reading:
        keys = KeySet(
            "https://issuer/keys",
            refresh_s=100,
            reading=reading,
            now_s=lambda: 0.0,
            log=silent_logger(),
            read=lambda _: issuers[0].document(*issuers[1:]),
        )
        rules = TokenRules(issuer="", audiences=(), user_claim="sub", skew_s=30)
        logins = TokenLogins(keys, rules, now_s=lambda: NOW_S)
        for issuer in issuers:
            sent = message(issuer.token(now_s=NOW_S, headers={}))
            assert (await begin(logins).take(sent)).user == "alice"
        stranger = message(Issuer(kind="EC").token(now_s=NOW_S, headers={}))
        assert (await begin(logins).take(stranger)).user is None


async def test_a_good_token_after_a_bad_one_does_not_help(logins):
    exchange = begin(logins)
    await exchange.take(b"nonsense")
    with pytest.raises(LoginRefused):
        await exchange.take(message(ISSUER.token(now_s=NOW_S)))


@pytest.mark.parametrize(
    ("audience", "why"),
    [("shop", ""), (["bank", "shop"], ""), ("bank", "audience"), (None, "no claim aud")],
)
async def test_a_token_has_to_be_for_the_instance(logins, audience, why):
    sent = message(ISSUER.token(now_s=NOW_S, aud=audience))
    exchange = begin(logins, ("shop",))
    step = await exchange.take(sent)
    assert (step.user is None) is bool(why)
    if why:
        with pytest.raises(LoginRefused, match=why):
            await exchange.take(ACKNOWLEDGEMENT)


async def test_an_instance_that_takes_tokens_no_more_takes_none(logins):
    """A connection that is open logs in again; the instance's audience has gone meanwhile."""
    exchange = begin(logins, None)
    assert (await exchange.take(message(ISSUER.token(now_s=NOW_S)))).user is None
    with pytest.raises(LoginRefused, match="no token opens"):
        await exchange.take(ACKNOWLEDGEMENT)
