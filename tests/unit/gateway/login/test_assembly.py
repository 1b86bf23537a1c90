import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import ValidationError

from highwater.gateway.config import GatewayConfig
from highwater.gateway.login.assembly import make_authorizer, make_gate
from highwater.gateway.login.topic_networks import TopicNetworks
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType
from highwater.model.cluster import ClusterImage
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.acls import acl, who

T = Resource(ResourceType.TOPIC, "t")


def test_without_the_setting_everything_is_allowed():
    assert make_authorizer(GatewayConfig(), lambda: None, TopicNetworks()).allows_all


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
    authorizer = make_authorizer(
        GatewayConfig(authorizer="acl", **settings), lambda: None, TopicNetworks()
    )
    assert not authorizer.allows_all
    assert authorizer.allows(who(), AclOperation.READ, T) is allowed


def test_acls_are_those_of_the_newest_image():
    images = [None]
    authorizer = make_authorizer(
        GatewayConfig(authorizer="acl"), lambda: images[-1], TopicNetworks()
    )
    assert not authorizer.allows(who(), AclOperation.READ, T)
    images.append(ClusterImage(revision=1, cluster_id="c", acls=frozenset((acl("t"),))))
    assert authorizer.allows(who(), AclOperation.READ, T)


async def test_limits_of_logins():
    config = GatewayConfig(login_s_max=7, login_failure_delay_s=0.5, login_lifetime_s=60)
    logged_in = []
    with ThreadPoolExecutor(1) as hashing:
        gate = make_gate(
            config,
            None,
            lambda: None,
            loop=asyncio.get_running_loop(),
            hashing=hashing,
            reading=hashing,
            clock=SystemClock(),
            log=silent_logger(),
            logged_in=logged_in.append,
        )
    gate.logged_in("a session")
    assert logged_in == ["a session"]
    limits = gate.limits
    assert (limits.login_s, limits.failure_delay_s, limits.lifetime_s) == (7, 0.5, 60)


def test_gateways_without_tokens_do_not_load_their_library():
    loaded = "import sys, highwater.gateway.service; print('jwt' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"


def test_tokens_take_the_issuers_keys():
    offered = {"sasl_mechanisms": ("OAUTHBEARER",)}
    with pytest.raises(ValidationError, match=r"oauth\.jwks_url"):
        GatewayConfig(**offered)
    assert GatewayConfig(**offered, oauth={"jwks_url": "file:///keys.json"})
    with pytest.raises(ValidationError, match="https://"):
        GatewayConfig(oauth={"jwks_url": "ftp://issuer/keys"})
