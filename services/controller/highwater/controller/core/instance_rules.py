"""What an instance may be by itself: its id, its blocks of ports, its networks and its limits.

What two instances, or an instance and gateways, may not both have is in `instance_ports`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Final

from highwater.controller.core.outcome import Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER, LISTENERS_MAX, invalid_listener_name

NETWORKS_MAX: Final = 1_000
"""Networks of one instance: every gateway compares a new connection with each."""

HOST_CHARS_MAX: Final = 253
"""Of a DNS name (RFC 1035)."""

AUDIENCE_CHARS_MAX: Final = 255
"""Of a token, which is a name or an address."""

PORT_MAX: Final = 65_535

_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,48}")
_LIMITS: Final = {
    "produce_bytes_per_second": "produce bytes per second",
    "consume_bytes_per_second": "consume bytes per second",
    "storage_bytes": "storage bytes",
    "connections_max": "connections",
    "partitions_max": "partitions",
    "groups_max": "groups",
    "message_bytes_max": "message bytes",
}


def invalid_instance_id(instance: InstanceId) -> str | None:
    """Why no instance can be created with this id, or None."""
    if instance == DEFAULT_INSTANCE:
        return f"'{instance}' is the instance of the gateways' own ports and always there"
    if instance.startswith("_"):
        return f"'{instance}' is reserved: ids that begin with '_' are the cluster's own"
    if _ID.fullmatch(instance) is None:
        return (
            f"'{instance[:60]}' is no instance id: 1 to 49 lower-case letters, digits and '-', "
            "the first one not '-'"
        )
    return None


def normalised(state: InstanceState, *, highest_node: int) -> InstanceState | Refusal:
    """The state with its networks and listeners in their usual form, or why it cannot be.

    `highest_node`: the highest id of a node, which must have a port in each of its blocks.
    """
    why = _limits_error(state) or _listeners_error(state.listeners, highest_node)
    if why is not None:
        return _invalid(why)
    if state.instance == DEFAULT_INSTANCE and state.listeners:
        return _invalid("the default instance has the gateways' own ports, and no others")
    why = _logins_error(state)
    if why is not None:
        return _invalid(why)
    networks = _networks(state.allowed_networks)
    return networks if isinstance(networks, Refusal) else replace(state, allowed_networks=networks)


def _limits_error(state: InstanceState) -> str | None:
    for field, words in _LIMITS.items():
        value = getattr(state, field)
        if value is not None and value < 0:
            return f"the limit of {words} is {value}, and must be 0 or more"
    return None


def _listeners_error(listeners: Sequence[InstanceListener], highest_node: int) -> str | None:
    names = [each.listener for each in listeners]
    if len(names) > LISTENERS_MAX + 1:  # The default one beside them.
        return f"an instance has ports on at most {LISTENERS_MAX + 1} listeners"
    for each in listeners:
        name = each.listener
        if names.count(name) > 1:
            return (
                f"listener '{name}' stands there twice: an instance has one block of ports on each"
            )
        if name != DEFAULT_LISTENER:
            why = invalid_listener_name(name)
            if why is not None:
                return why
            if name != name.lower():
                return f"listener '{name}' is not in lower case"
        why = _ports_error(each, highest_node) or _host_error(each.advertised_host)
        if why is not None:
            return why
    return None


def _ports_error(block: InstanceListener, highest_node: int) -> str | None:
    if not 1 <= block.port <= PORT_MAX:
        return f"port {block.port} is not between 1 and {PORT_MAX}"
    if not 0 <= block.advertised_port <= PORT_MAX:
        return f"advertised port {block.advertised_port} is not between 1 and {PORT_MAX}"
    for what, port in (("port", block.port), ("advertised port", block.advertised_port)):
        if port + highest_node > PORT_MAX:
            return (
                f"{what} {port} leaves node {highest_node} none: its own is that + {highest_node}"
            )
    return None


def _host_error(host: str) -> str | None:
    if len(host) > HOST_CHARS_MAX:
        return f"an advertised host has at most {HOST_CHARS_MAX} characters"
    if not host.isprintable() or any(c.isspace() for c in host):
        return f"advertised host {host!r} holds blanks or characters that cannot be printed"
    return None


def _logins_error(state: InstanceState) -> str | None:
    audience = state.token_audience
    if state.instance == DEFAULT_INSTANCE and (audience or state.certificates):
        return "whom tokens and certificates name in the default instance is said by the gateways' settings"
    if len(audience) > AUDIENCE_CHARS_MAX:
        return f"an audience of tokens has at most {AUDIENCE_CHARS_MAX} characters"
    if not audience.isprintable() or audience != audience.strip():
        return f"audience {audience!r} holds blanks around it or characters that cannot be printed"
    return None


def _networks(networks: Sequence[str] | None) -> tuple[str, ...] | Refusal | None:
    """Each network once, in the form that `ipaddress` gives it."""
    if networks is None:
        return None
    if len(networks) > NETWORKS_MAX:
        return _invalid(f"an instance has at most {NETWORKS_MAX} allowed networks")
    found: list[str] = []
    for text in networks:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            return _invalid(f"'{text[:80]}' is no network in CIDR notation, such as 10.0.0.0/8")
        address = text.partition("/")[0]
        if ip_address(address) != network.network_address:
            return _invalid(
                f"'{text}' has bits set behind its prefix: {network} is the network, and {address} "
                "alone the single address"
            )
        found.append(str(network))
    return tuple(dict.fromkeys(found))


def _invalid(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
