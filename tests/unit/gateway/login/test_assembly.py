import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from highwater.gateway.config import GatewayConfig
from highwater.gateway.login.acl_authorizer import AclAuthorizer
from highwater.gateway.login.assembly import make_authorizer, make_gate
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import AllowAll, Resource, ResourceType
from highwater.model.cluster import ClusterImage
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.acls import acl, who

T = Resource(ResourceType.TOPIC, "t")


def test_without_the_setting_everything_is_allowed():
    assert isinstance(make_authorizer(GatewayConfig(), lambda: None), AllowAll)


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({}, False),
        ({"super_users": ("User:alice",)}, True),
        ({"super_users": ("User:bob",)}, False),
        ({"allow_everyone_if_no_acl_found": True}, True),
    ],
)
def test_settings_of_acls(settings, allowed):
    authorizer = make_authorizer(GatewayConfig(authorizer="acl", **settings), lambda: None)
    assert isinstance(authorizer, AclAuthorizer)
    assert authorizer.allows(who(), AclOperation.READ, T) is allowed


def test_acls_are_those_of_the_newest_image():
    images = [None]
    authorizer = make_authorizer(GatewayConfig(authorizer="acl"), lambda: images[-1])
    assert not authorizer.allows(who(), AclOperation.READ, T)
    images.append(ClusterImage(revision=1, cluster_id="c", acls=frozenset((acl("t"),))))
    assert authorizer.allows(who(), AclOperation.READ, T)


async def test_limits_of_logins():
    config = GatewayConfig(login_s_max=7, login_failure_delay_s=0.5, login_lifetime_s=60)
    with ThreadPoolExecutor(1) as hashing:
        gate = make_gate(
            config,
            None,
            lambda: None,
            loop=asyncio.get_running_loop(),
            hashing=hashing,
            clock=SystemClock(),
            log=silent_logger(),
        )
    limits = gate.limits
    assert (limits.login_s, limits.failure_delay_s, limits.lifetime_s) == (7, 0.5, 60)
