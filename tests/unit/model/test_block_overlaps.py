"""Where the block of one gateway ends and that of another one on its host begins."""

from dataclasses import replace

from highwater.model.block_overlaps import block_overlaps
from highwater.model.cluster import GatewayListener, GatewayState
from highwater.model.ids import GatewayId, NodeId


def gateway(name: str, port: int, *, host: str = "h", internal: int = 0) -> GatewayState:
    listeners = (GatewayListener(name="internal", host=host, port=internal),) if internal else ()
    return GatewayState(
        gateway_id=GatewayId(name), host=host, port=port, single_port=False, listeners=listeners
    )


def found(*gateways: GatewayState) -> set[tuple[str, str, str, int]]:
    """By gateway and listener: the other gateway, and the first node that it takes."""
    return {
        (each.gateway_id, each.listener, each.other, each.other_port - each.port)
        for each in block_overlaps(gateways)
    }


def test_a_block_ends_where_the_next_one_begins() -> None:
    assert found(gateway("c", 9010), gateway("a", 9000), gateway("b", 9004)) == {
        ("a", "default", "b", 4),
        ("b", "default", "c", 6),
    }


def test_the_other_gateway_takes_nodes_from_its_bootstrap_port_on() -> None:
    (overlap,) = block_overlaps([gateway("a", 9000), gateway("b", 9004)])
    assert [overlap.takes(NodeId(n)) for n in (1, 3, 4, 5)] == [False, False, True, True]
    text = str(overlap)
    assert "ports from 9004 on of listener default of gateway a (h:9000)" in text
    assert "nodes from 4 on" in text


def test_gateways_with_one_block_leave_each_other_everything() -> None:
    assert found(gateway("a", 9000), gateway("b", 9000)) == set()
    assert found(gateway("a", 9000), gateway("b", 9000), gateway("c", 9004)) == {
        ("a", "default", "c", 4),
        ("b", "default", "c", 4),
    }


def test_other_hosts_do_not_matter() -> None:
    assert found(gateway("a", 9000, host="x"), gateway("b", 9004, host="y")) == set()


def test_listeners_have_blocks_of_their_own() -> None:
    both = (gateway("a", 9000, internal=9500), gateway("b", 9100, internal=9600))
    assert found(*both) == {
        ("a", "default", "b", 100),
        ("a", "internal", "b", 100),
        ("b", "default", "a", 400),
    }
    assert found(gateway("a", 9000, internal=9004)) == set(), "its own, which it looks after itself"


def test_one_port_for_everything_is_no_block() -> None:
    single = replace(gateway("a", 9000), single_port=True)
    assert found(single, gateway("b", 9001)) == set()
    assert found(single, gateway("b", 8999)) == {("b", "default", "a", 1)}
