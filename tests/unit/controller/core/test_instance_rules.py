"""What an instance may be by itself."""

from typing import Any

import pytest

from highwater.controller.core.instance_rules import (
    NETWORKS_MAX,
    invalid_instance_id,
    normalised,
)
from highwater.controller.core.outcome import Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState


def checked(instance: str = "shop", **fields: Any) -> InstanceState | Refusal:
    return normalised(InstanceState(instance=InstanceId(instance), **fields), highest_node=3)


def why(*blocks: InstanceListener, instance: str = "shop", **fields: Any) -> str:
    refusal = checked(instance, listeners=blocks, **fields)
    assert isinstance(refusal, Refusal), "accepted"
    assert refusal.code == ErrorCode.INVALID_REQUEST
    return refusal.message


@pytest.mark.parametrize("name", ["a", "0", "shop", "team-a", "a" * 49])
def test_ids(name: str) -> None:
    assert invalid_instance_id(InstanceId(name)) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is no instance id"),
        ("-a", "is no instance id"),
        ("Shop", "is no instance id"),
        ("a/b", "is no instance id"),
        ("a\n", "is no instance id"),
        ("ä", "is no instance id"),
        ("a" * 50, "is no instance id"),
        ("default", "always there"),
        ("_system", "reserved"),
    ],
)
def test_what_is_no_id(name: str, words: str) -> None:
    assert words in (invalid_instance_id(InstanceId(name)) or "")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ((), ()),
        (("10.0.0.0/8", "192.0.2.7"), ("10.0.0.0/8", "192.0.2.7/32")),
        (("10.0.0.0/255.0.0.0", "10.0.0.0/8"), ("10.0.0.0/8",)),
        (("2001:DB8:0::/32",), ("2001:db8::/32",)),
    ],
)
def test_networks_are_kept_in_one_form(given: Any, kept: Any) -> None:
    state = checked(allowed_networks=given)
    assert isinstance(state, InstanceState)
    assert state.allowed_networks == kept


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("10.0.0.5/8", "bits set behind its prefix: 10.0.0.0/8 is the network, and 10.0.0.5 alone"),
        ("2001:db8::1/32", "bits set behind its prefix"),
        ("10.0.0.0/33", "is no network in CIDR notation"),
        ("example.com", "is no network in CIDR notation"),
        ("", "is no network in CIDR notation"),
    ],
)
def test_what_is_no_network(network: str, words: str) -> None:
    assert words in why(allowed_networks=("192.0.2.0/24", network))


def test_networks_have_a_limit() -> None:
    assert f"at most {NETWORKS_MAX}" in why(allowed_networks=("10.0.0.0/8",) * (NETWORKS_MAX + 1))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (InstanceListener(port=0), "port 0 is not between 1 and 65535"),
        (InstanceListener(port=65_536), "port 65536 is not between"),
        (InstanceListener(port=65_533), "port 65533 leaves node 3 none"),
        (InstanceListener(port=1, advertised_port=65_536), "advertised port 65536 is not between"),
        (InstanceListener(port=1, advertised_port=65_533), "advertised port 65533 leaves node 3"),
        (InstanceListener(port=1, advertised_host="a b"), "blanks"),
        (InstanceListener(port=1, advertised_host="a" * 254), "at most 253 characters"),
        (InstanceListener(port=1, listener=""), "name is empty"),
        (InstanceListener(port=1, listener="Secure"), "not in lower case"),
        (InstanceListener(port=1, listener="a/b"), "a character other than"),
        (InstanceListener(port=1, listener="plaintext"), "reserved"),
    ],
)
def test_blocks_that_cannot_be(block: InstanceListener, words: str) -> None:
    assert words in why(block)


def test_the_last_block_that_has_a_port_for_every_node() -> None:
    block = InstanceListener(port=65_532, advertised_port=65_532, advertised_host="kafka.example")
    state = checked(listeners=(block,))
    assert isinstance(state, InstanceState)
    assert state.listeners == (block,)


def test_one_block_on_each_listener() -> None:
    one, other = InstanceListener(port=1), InstanceListener(port=9, listener="secure")
    assert isinstance(checked(listeners=(one, other)), InstanceState)
    assert "twice" in why(one, InstanceListener(port=9))
    many = [InstanceListener(port=n, listener=f"l{n}") for n in range(1, 19)]
    assert "at most 17 listeners" in why(*many)


def test_the_default_instance_has_limits_but_no_ports() -> None:
    assert isinstance(checked(DEFAULT_INSTANCE, partitions_max=0), InstanceState)
    message = why(InstanceListener(port=1), instance=DEFAULT_INSTANCE)
    assert "the gateways' own ports" in message


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("produce_bytes_per_second", "produce bytes per second"),
        ("consume_bytes_per_second", "consume bytes per second"),
        ("storage_bytes", "storage bytes"),
        ("connections_max", "connections"),
        ("partitions_max", "partitions"),
        ("groups_max", "groups"),
        ("message_bytes_max", "message bytes"),
    ],
)
def test_limits_are_not_negative(field: str, words: str) -> None:
    assert isinstance(checked(**{field: 0}), InstanceState)
    assert why(**{field: -1}) == f"the limit of {words} is -1, and must be 0 or more"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"instance": "default", "token_audience": "a"}, "gateways' settings"),
        ({"instance": "default", "certificates": True}, "gateways' settings"),
        ({"token_audience": "a" * 256}, "at most 255"),
        ({"token_audience": " a"}, "holds blanks"),
        ({"token_audience": "a\nb"}, "cannot be printed"),
    ],
)
def test_audiences_and_certificates_that_cannot_be(fields: Any, words: str) -> None:
    assert words in why(**fields)


def test_every_instance_may_be_open_or_closed() -> None:
    for name in ("shop", "default"):
        for is_open in (True, False, None):
            kept = checked(name, open_if_no_acl=is_open)
            assert isinstance(kept, InstanceState)
            assert kept.open_if_no_acl is is_open
    kept = checked(token_audience="https://a.example/api", certificates=True)
    assert isinstance(kept, InstanceState)
    assert (kept.token_audience, kept.certificates) == ("https://a.example/api", True)
