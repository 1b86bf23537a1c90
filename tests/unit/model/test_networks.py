import pytest

from highwater.model.networks import (
    NETWORKS_MAX,
    Networks,
    canonical_address,
    networks_of_config,
)


@pytest.mark.parametrize(
    ("cidr", "host", "inside"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.1.2.3/8", "10.9.9.9", True),
        (" 10.1.2.3 ", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("0.0.0.0/0", "192.168.0.1", True),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("::/0", "192.168.0.1", False),
        ("2001:db8::/32", "2001:db8:1::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:11.1.2.3", False),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "::ffff:11.1.2.3", False),
        ("10.0.0.0/8", "", False),
        ("10.0.0.0/8", "some.host", False),
    ],
)
def test_an_address_is_in_a_network(cidr, host, inside):
    assert Networks((cidr,)).holds(host) is inside


def test_one_of_several_is_enough_and_none_hold_nothing():
    several = Networks(("10.0.0.0/8", "2001:db8::/32", "127.0.0.1"))
    assert all(several.holds(host) for host in ("10.0.0.1", "2001:db8::1", "127.0.0.1"))
    assert not several.holds("127.0.0.2")
    assert not Networks(()).holds("127.0.0.1")


@pytest.mark.parametrize("cidr", ["", "10.0.0.0/33", "10.0.0", "host", "::/129", "1.2.3.4/x"])
def test_an_entry_that_is_no_network_is_refused(cidr):
    with pytest.raises(ValueError, match=cidr or "''"):
        Networks(("10.0.0.0/8", cidr))


def test_a_list_has_a_limit():
    Networks(["10.0.0.1"] * NETWORKS_MAX)
    with pytest.raises(ValueError, match="more than"):
        Networks(["10.0.0.1"] * (NETWORKS_MAX + 1))


def test_a_config_may_mean_anywhere_or_nowhere():
    assert networks_of_config("") is None
    assert networks_of_config(" , ") is None
    assert not networks_of_config("none").holds("10.0.0.1")
    several = networks_of_config("10.0.0.0/8, 2001:db8::/32")
    assert several.holds("10.0.0.1")
    assert several.holds("2001:db8::1")
    with pytest.raises(ValueError, match="none"):
        networks_of_config("none,10.0.0.0/8")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0::0A", "2001:db8::a"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("*", "*"),
        ("", ""),
        ("010.0.0.1", "010.0.0.1"),
    ],
)
def test_addresses_have_one_form(text, form):
    assert canonical_address(text) == form
