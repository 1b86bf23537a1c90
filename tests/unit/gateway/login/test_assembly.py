import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import ValidationError

from highwater.gateway.config import GatewayConfig
from highwater.gateway.login.assembly import make_authorizer, make_gate
from highwater.gateway.login.topic_networks import TopicNetworks
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.gateway.routing.table import InstanceTopics
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Requester, Resource, ResourceType
from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.acls import acl, who
from tests.support.tokens import Issuer, message

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


@pytest.mark.parametrize("of_gateway", [True, False])
@pytest.mark.parametrize("of_instance", [True, False, None])
def test_an_instance_may_say_whether_it_is_open_by_itself(of_gateway, of_instance):
    shop = InstanceState(instance=InstanceId("shop"), open_if_no_acl=of_instance)
    image = ClusterImage(revision=1, cluster_id="c", instances={shop.instance: shop})
    config = GatewayConfig(authorizer="acl", allow_everyone_if_no_acl_found=of_gateway)
    authorizer = make_authorizer(config, lambda: image, TopicNetworks())
    of_shop = Requester(who().principal, shop.instance, "10.0.0.1")
    expected = of_gateway if of_instance is None else of_instance
    assert authorizer.allows(of_shop, AclOperation.READ, T) is expected
    assert authorizer.allows(who(), AclOperation.READ, T) is of_gateway


class Session:
    """A connection of an instance, as the gate sees it."""

    def __init__(self, instance):
        peer = Peer(instance=InstanceId(instance), node=None, host="10.0.0.1", port=1)
        self.client = ClientInfo(peer, InstanceTopics(NearNodes()))
        self.shared = None
        self.closed = False


async def test_a_token_of_one_instance_opens_no_port_of_another(tmp_path):
    issuer = Issuer(kind="EC")
    keys = tmp_path / "keys.json"
    keys.write_bytes(issuer.document())
    states = [
        InstanceState(instance=InstanceId("shop"), token_audience="shop"),
        InstanceState(instance=InstanceId("bank"), token_audience="bank"),
        InstanceState(instance=InstanceId("bare")),
    ]
    image = ClusterImage(
        revision=1, cluster_id="c", instances={state.instance: state for state in states}
    )
    with ThreadPoolExecutor(1) as hashing:
        gate = make_gate(
            GatewayConfig(oauth={"jwks_url": keys.as_uri()}),
            None,
            lambda: image,
            loop=asyncio.get_running_loop(),
            hashing=hashing,
            reading=hashing,
            clock=SystemClock(),
            log=silent_logger(),
            logged_in=lambda _session: None,
            login_failed=lambda _instance: None,
            nobody_secret=lambda: b"secret",
        )
        token = message(issuer.token(aud="shop"))

        def login(instance):
            session = Session(instance)
            gate.admit(session, ("OAUTHBEARER",))
            return session.client.login

        for instance, user in (("shop", "alice"), ("bank", None), ("default", None)):
            port = login(instance)
            assert port.handshake("OAUTHBEARER") == ErrorCode.NONE
            if instance == "default":
                continue  # It goes by the gateway's settings, which here take any audience.
            assert (await port._login.take(token)).user == user
            port.close()
        for unknown in ("bare", "not-there"):
            port = login(unknown)
            assert port.offered == ()
            assert port.handshake("OAUTHBEARER") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            port.close()


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
            login_failed=logged_in.append,
            nobody_secret=lambda: b"secret",
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
