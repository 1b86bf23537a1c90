"""Logins and authorization as the gateway's settings have them."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Final

from highwater.gateway.config import GatewayConfig, OAuthSettings
from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.login.acl_authorizer import AclAuthorizer
from highwater.gateway.login.fair_turns import FairTurns
from highwater.gateway.login.gate import LoginGate, LoginLimits
from highwater.gateway.login.mechanisms import Exchange, Mechanisms, OnThread
from highwater.gateway.login.network_authorizer import NetworkAuthorizer
from highwater.gateway.login.topic_networks import TopicNetworks
from highwater.gateway.login.users import Users
from highwater.gateway.routing.client import ClientSession
from highwater.model.acls import Acl
from highwater.model.authorization import AllowAll, Authorizer
from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from highwater.model.scram import ScramCredential, ScramKey
from highwater.model.time import Clock
from highwater.runtime.logging import Logger

NONCE_BYTES: Final = 24
"""Random bytes in the nonce of a login."""
_NO_ACLS: Final[frozenset[Acl]] = frozenset()


def make_authorizer(
    config: GatewayConfig, image: Callable[[], ClusterImage | None], topics: TopicNetworks
) -> Authorizer:
    """What decides; `image` returns the newest one, None before there is any."""
    return NetworkAuthorizer(_configured(config, image), topics)


def _configured(config: GatewayConfig, image: Callable[[], ClusterImage | None]) -> Authorizer:
    if config.authorizer == "none":
        return AllowAll()

    def acls() -> frozenset[Acl]:
        newest = image()
        return _NO_ACLS if newest is None else newest.acls

    def is_open(instance: InstanceId) -> bool:
        state = _instance(image, instance)
        if state is None or state.open_if_no_acl is None:
            return config.allow_everyone_if_no_acl_found
        return state.open_if_no_acl

    return AclAuthorizer(acls, super_users=frozenset(config.super_users), allow_if_no_acl=is_open)


def _instance(
    image: Callable[[], ClusterImage | None], instance: InstanceId
) -> InstanceState | None:
    newest = image()
    return None if newest is None else newest.instances.get(instance)


def make_gate(
    config: GatewayConfig,
    requests: RequestHandler[ClientSession],
    image: Callable[[], ClusterImage | None],
    *,
    loop: asyncio.AbstractEventLoop,
    hashing: Executor,
    reading: Executor,
    clock: Clock,
    log: Logger,
    logged_in: Callable[[ClientSession], object],
    login_failed: Callable[[InstanceId], object],
    nobody_secret: Callable[[], bytes],
) -> LoginGate:
    """The gate of all listeners. `image` is as above; `hashing` runs what takes some ms of a processor,
    `reading` what waits for another machine; for `logged_in` and `login_failed` see `LoginGate`, for `nobody_secret` `Users`.
    """
    turns = FairTurns(loop, hashing)

    def on_thread(instance: InstanceId) -> OnThread:
        return partial(turns.run, instance)

    def audiences(instance: InstanceId) -> tuple[str, ...] | None:
        if instance == DEFAULT_INSTANCE:
            return config.oauth.audiences
        state = _instance(image, instance)
        return (state.token_audience,) if state is not None and state.token_audience else None

    def credentials() -> Mapping[ScramKey, ScramCredential]:
        newest = image()
        return {} if newest is None else newest.scram_credentials

    return LoginGate(
        requests,
        Mechanisms(
            Users(credentials, nobody_secret),
            nonce=partial(secrets.token_urlsafe, NONCE_BYTES),
            on_thread=on_thread,
            by_token=_logins_by_token(
                config.oauth, on_thread, audiences, reading=reading, clock=clock, log=log
            ),
            takes_tokens=lambda instance: audiences(instance) is not None,
        ),
        LoginLimits(
            login_s=config.login_s_max,
            failure_delay_s=config.login_failure_delay_s,
            lifetime_s=config.login_lifetime_s,
        ),
        call_later=loop.call_later,
        now_ms=clock.monotonic_ms,
        log=log,
        logged_in=logged_in,
        login_failed=login_failed,
    )


def _logins_by_token(
    settings: OAuthSettings,
    on_thread: Callable[[InstanceId], OnThread],
    audiences: Callable[[InstanceId], tuple[str, ...] | None],
    *,
    reading: Executor,
    clock: Clock,
    log: Logger,
) -> Callable[[InstanceId], Exchange] | None:
    if not settings.jwks_url:
        return None
    # The library loads in 0.2 s and more, which others' starts need not wait for.
    from highwater.gateway.login.key_set import KeySet
    from highwater.gateway.login.oauth import OAuthExchange, TokenLogins
    from highwater.gateway.login.token_rules import TokenRules

    logins = TokenLogins(
        KeySet(
            settings.jwks_url,
            refresh_s=settings.refresh_s,
            reading=reading,
            now_s=lambda: clock.monotonic_ms() / 1000,
            log=log,
        ),
        TokenRules(
            issuer=settings.issuer,
            audiences=settings.audiences,
            user_claim=settings.user_claim,
            skew_s=settings.skew_s,
        ),
        now_s=lambda: clock.wall_ms() / 1000,
    )
    return lambda instance: OAuthExchange(logins, lambda: audiences(instance), on_thread(instance))
