import pytest

from highwater.embed.commands.instance_change import (
    AccessOptions,
    AllowOptions,
    InstanceChange,
    PortOptions,
)
from highwater.model.errors import UsageError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState

FULL = InstanceState(
    instance=InstanceId("shop"),
    produce_bytes_per_second=1,
    consume_bytes_per_second=2,
    storage_bytes=3,
    listeners=(
        InstanceListener(port=19_000, advertised_host="kafka", advertised_port=9092),
        InstanceListener(port=19_500, listener="secure"),
    ),
    allowed_networks=("10.0.0.0/8",),
    connections_max=4,
    partitions_max=5,
    groups_max=6,
    message_bytes_max=7,
    delete_protection=True,
    token_audience="shop",
    certificates=True,
    open_if_no_acl=True,
)


def test_what_is_not_named_stays():
    assert InstanceChange().of(FULL) == FULL


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("produce_bytes_per_second", "10MB", 10_000_000),
        ("consume_bytes_per_second", "64KiB", 65_536),
        ("storage_bytes", "10GB", 10_000_000_000),
        ("connections_max", "9", 9),
        ("partitions_max", "0", 0),
        ("groups_max", "9", 9),
        ("message_bytes_max", "1MiB", 1 << 20),
    ],
)
def test_limits(field, text, expected):
    changed = InstanceChange(limits={field: text}).of(FULL)
    assert getattr(changed, field) == expected
    assert InstanceChange(limits={field: "none"}).of(FULL) != FULL
    assert getattr(InstanceChange(limits={field: "none"}).of(FULL), field) is None
    assert InstanceChange(limits={field: None}).of(FULL) == FULL


def test_a_message_is_smaller_than_two_gib():
    with pytest.raises(UsageError, match="--message-bytes: a message has at most"):
        InstanceChange(limits={"message_bytes_max": "2GiB"}).of(FULL)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (AllowOptions(), ("10.0.0.0/8",)),
        (AllowOptions(networks=["192.0.2.0/24", "::1"]), ("192.0.2.0/24", "::1")),
        (AllowOptions(nobody=True), ()),
        (AllowOptions(all=True), None),
    ],
)
def test_networks(options, expected):
    assert InstanceChange(allow=options).of(FULL).allowed_networks == expected


def test_networks_that_contradict_each_other():
    with pytest.raises(UsageError, match="one of --allow"):
        InstanceChange(allow=AllowOptions(nobody=True, all=True)).of(FULL)


def listeners(**options):
    changed = InstanceChange(ports=PortOptions(**options)).of(FULL)
    return {each.listener: each for each in changed.listeners}


def test_one_block_is_changed_and_the_other_one_stays():
    assert listeners(port=20_000) == {
        "default": InstanceListener(port=20_000, advertised_host="kafka", advertised_port=9092),
        "secure": FULL.listeners[1],
    }
    assert listeners(listener="secure", advertised_host="s", advertised_port=9)["secure"] == (
        InstanceListener(port=19_500, listener="secure", advertised_host="s", advertised_port=9)
    )
    cleared = listeners(advertised_host="", advertised_port=0)["default"]
    assert cleared == InstanceListener(port=19_000)


def test_blocks_come_and_go():
    assert listeners(listener="third", port=21_000)["third"] == InstanceListener(
        port=21_000, listener="third"
    )
    assert listeners(removed=["secure"]) == {"default": FULL.listeners[0]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"removed": ["third"]}, "no ports on listener 'third'"),
        ({"listener": "third", "advertised_host": "h"}, "with which --port"),
        ({"listener": "secure"}, "--listener secure: with which --port"),
    ],
)
def test_blocks_that_are_not_there(options, words):
    with pytest.raises(UsageError, match=words):
        listeners(**options)


def test_protection():
    assert InstanceChange(delete_protection=False).of(FULL).delete_protection is False
    assert InstanceChange(delete_protection=None).of(FULL).delete_protection is True


@pytest.mark.parametrize(
    ("options", "audience", "certificates", "is_open"),
    [
        (AccessOptions(), "shop", True, True),
        (AccessOptions(token_audience="bank"), "bank", True, True),
        (AccessOptions(token_audience="none"), "", True, True),
        (AccessOptions(certificates=False), "shop", False, True),
        (AccessOptions(open=False), "shop", True, False),
        (AccessOptions(open_as_gateway=True), "shop", True, None),
    ],
)
def test_access(options, audience, certificates, is_open):
    changed = InstanceChange(access=options).of(FULL)
    told = (changed.token_audience, changed.certificates, changed.open_if_no_acl)
    assert told == (audience, certificates, is_open)


def test_open_and_as_the_gateway_are_two_wishes():
    with pytest.raises(UsageError, match="one of --open"):
        InstanceChange(access=AccessOptions(open=True, open_as_gateway=True)).of(FULL)
