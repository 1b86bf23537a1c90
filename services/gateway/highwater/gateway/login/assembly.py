"""Logins and authorization as the gateway's settings have them."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Final

from highwater.gateway.config import GatewayConfig
from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.login.acl_authorizer import AclAuthorizer
from highwater.gateway.login.gate import LoginGate, LoginLimits
from highwater.gateway.login.mechanisms import Mechanisms
from highwater.gateway.login.users import Users
from highwater.gateway.routing.client import ClientSession
from highwater.model.acls import Acl
from highwater.model.authorization import AllowAll, Authorizer
from highwater.model.cluster import ClusterImage
from highwater.model.scram import ScramCredential, ScramKey
from highwater.model.time import Clock
from highwater.runtime.logging import Logger

NONCE_BYTES: Final = 24
"""Random bytes in the nonce of a login."""
_NO_ACLS: Final[frozenset[Acl]] = frozenset()


def make_authorizer(config: GatewayConfig, image: Callable[[], ClusterImage | None]) -> Authorizer:
    """What decides; `image` returns the newest one, None before there is any."""
    if config.authorizer == "none":
        return AllowAll()

    def acls() -> frozenset[Acl]:
        newest = image()
        return _NO_ACLS if newest is None else newest.acls

    return AclAuthorizer(
        acls,
        super_users=frozenset(config.super_users),
        allow_if_no_acl=config.allow_everyone_if_no_acl_found,
    )


def make_gate(
    config: GatewayConfig,
    requests: RequestHandler[ClientSession],
    image: Callable[[], ClusterImage | None],
    *,
    loop: asyncio.AbstractEventLoop,
    hashing: Executor,
    clock: Clock,
    log: Logger,
) -> LoginGate:
    """The gate of all listeners. `image` is as above; `hashing` runs what takes some ms of a processor."""

    def credentials() -> Mapping[ScramKey, ScramCredential]:
        newest = image()
        return {} if newest is None else newest.scram_credentials

    return LoginGate(
        requests,
        Mechanisms(
            Users(credentials),
            nonce=partial(secrets.token_urlsafe, NONCE_BYTES),
            on_thread=partial(loop.run_in_executor, hashing),
        ),
        LoginLimits(
            login_s=config.login_s_max,
            failure_delay_s=config.login_failure_delay_s,
            lifetime_s=config.login_lifetime_s,
        ),
        call_later=loop.call_later,
        now_ms=clock.monotonic_ms,
        log=log,
    )
