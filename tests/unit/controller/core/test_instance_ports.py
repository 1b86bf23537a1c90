"""Whose ports an instance's blocks would take. Three nodes: a block has its port and three more."""

from dataclasses import replace

import pytest

from highwater.controller.core.instance_ports import (
    finding_overlaps,
    highest_node,
    port_conflict,
)
from highwater.model.cluster import ClusterImage, GatewayListener, GatewayState
from highwater.model.ids import GatewayId, InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.steps import finish
from tests.support.controller_images import image_with, with_instances


def gateway(
    name: str,
    *,
    host: str = "",
    port: int = 9092,
    secure: int = 0,
    single_port: bool = False,
    shift: int = 0,
) -> GatewayState:
    listener = GatewayListener(name="secure", host=host or name, port=secure)
    return GatewayState(
        gateway_id=GatewayId(name),
        host=host or name,
        port=port,
        single_port=single_port,
        listeners=(listener,) if secure else (),
        instance_port_shift=shift,
    )


def instance(name: str, port: int, listener: str = "default") -> InstanceState:
    block = InstanceListener(port=port, listener=listener)
    return InstanceState(instance=InstanceId(name), listeners=(block,))


def image_of(*gateways: GatewayState, others: tuple[InstanceState, ...] = ()) -> ClusterImage:
    image = replace(image_with(3), gateways={g.gateway_id: g for g in gateways})
    return with_instances(image, *others)


def conflict(port: int, image: ClusterImage, listener: str = "default") -> str | None:
    return port_conflict(image, instance("shop", port, listener))


def test_the_highest_node() -> None:
    assert highest_node(image_with(3)) == 3
    assert highest_node(image_with(0)) == 0


@pytest.mark.parametrize(
    ("port", "free"),
    [(9088, True), (9089, False), (9092, False), (9095, False), (9096, True)],
)
def test_beside_a_gateways_own_block(port: int, free: bool) -> None:
    found = conflict(port, image_of(gateway("gw")))
    assert (found is None) is free
    if found is not None:
        assert "9092 to 9095 of listener default of gateway gw" in found


@pytest.mark.parametrize(
    ("port", "free"), [(18_996, True), (18_997, False), (19_003, False), (19_004, True)]
)
def test_beside_another_instance(port: int, free: bool) -> None:
    other = instance("other", 19_000)
    assert (conflict(port, image_of(gateway("gw"), others=(other,))) is None) is free
    assert (conflict(port, image_of(others=(other,))) is None) is free, "nor without a gateway"


def test_an_instance_is_not_in_its_own_way() -> None:
    image = image_of(gateway("gw"), others=(instance("shop", 19_000),))
    assert conflict(19_000, image) is None
    assert conflict(19_002, image) is None


def test_all_listeners_of_a_gateway_share_its_ports() -> None:
    image = image_of(gateway("gw", secure=9192))
    assert "of listener secure of gateway gw" in (conflict(9190, image) or "")
    other = image_of(gateway("gw", secure=9192), others=(instance("other", 19_000, "secure"),))
    assert "of instance other" in (conflict(19_001, other) or "")


def test_a_listener_that_no_gateway_has_takes_no_ports_there() -> None:
    assert conflict(9092, image_of(gateway("gw")), "secure") is None
    present = image_of(gateway("gw"), others=(instance("other", 9500, "secure"),))
    assert conflict(9500, present, "secure") is not None, "but it may come"


def test_gateways_on_one_host_share_its_ports() -> None:
    near = image_of(gateway("a", host="h"), gateway("b", host="h", port=9192))
    assert "of gateway b" in (conflict(9193, near) or "")
    far = image_of(gateway("a"), gateway("b", port=9192))
    assert "of gateway b" in (conflict(9193, far) or ""), "it is a port of that gateway, too"


def test_ports_are_shifted_where_hosts_are_shared() -> None:
    one, two = gateway("a", host="h"), gateway("b", host="h", shift=10)
    image = image_of(one, two, others=(instance("other", 19_010),))
    assert "19010 to 19013" in (conflict(19_000, image) or "")
    apart = image_of(one, gateway("b", shift=10), others=(instance("other", 19_020),))
    assert conflict(19_000, apart) is None


def test_a_gateway_with_a_single_port_has_no_blocks() -> None:
    image = image_of(gateway("gw", single_port=True), others=(instance("other", 19_000),))
    assert conflict(9093, image) is None
    assert conflict(19_001, image) is None
    assert conflict(9092, image) is not None
    assert conflict(19_000, image) is not None


def test_a_deleted_instance_keeps_its_ports() -> None:
    deleted = replace(instance("other", 19_000), purge_at_ms=1)
    assert "deleted and keeps its ports" in (conflict(19_000, image_of(others=(deleted,))) or "")


def test_what_comes_later_is_told() -> None:
    shop, other = instance("shop", 9196), instance("other", 19_000)
    apart = image_of(gateway("a", host="h"), others=(shop, other))
    assert finish(finding_overlaps(apart)) == frozenset()
    joined = image_of(
        gateway("a", host="h"), gateway("b", host="h", port=9195), others=(shop, other)
    )
    assert finish(finding_overlaps(joined)) == {
        f"ports 9195 to 9198 of listener default of gateway b and 9196 to 9199 of instance shop "
        f"overlap at {where}"
        for where in ("b", "h")
    }
    near = (shop, instance("other", 9200))
    grown = replace(image_with(4), gateways=apart.gateways)
    assert finish(finding_overlaps(with_instances(grown, *near))) == {
        f"ports 9196 to 9200 of instance shop and 9200 to 9204 of instance other overlap at {where}"
        for where in ("a", "h")
    }


def test_gateways_among_themselves_are_not_told_here() -> None:
    image = image_of(gateway("a", host="h"), gateway("b", host="h", port=9093))
    assert finish(finding_overlaps(image)) == frozenset()


def test_gateways_of_one_host_share_an_instances_block_unless_they_are_shifted_too_little() -> None:
    shop = instance("shop", 19_000)
    same = image_of(gateway("a", host="h"), gateway("b", host="h"), others=(shop,))
    assert finish(finding_overlaps(same)) == frozenset()
    shifted = image_of(gateway("a", host="h"), gateway("b", host="h", shift=2), others=(shop,))
    assert finish(finding_overlaps(shifted)) == {
        "ports 19000 to 19003 of instance shop and 19002 to 19005 of instance shop overlap at h"
    }
