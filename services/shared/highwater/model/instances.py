"""Instances: tenants of a cluster, each with names, ports, users and limits of its own."""

from dataclasses import dataclass

from highwater.model.ids import InstanceId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceListener:
    """A block of ports at every gateway whose connections belong to the instance.

    The block hangs on one of the gateway's listeners, from which it has its address, TLS and SASL. Gateways
    that share a host with others add their `GatewayState.instance_port_shift` to both ports.
    """

    port: int
    """The bootstrap port; `port + n` is node n, unless the gateway has a single port."""
    listener: str = DEFAULT_LISTENER
    """The gateway's listener that it hangs on; a gateway without that listener does not serve it."""
    advertised_host: str = ""
    """Host that clients are told; empty means the gateway's own for that listener."""
    advertised_port: int = 0
    """Bootstrap port that clients are told, and node n on that + n; 0 means `port`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """An instance, as its operator has set it; a limit of None is unlimited.

    The default instance need not be among an image's instances: it is there without limits.
    """

    instance: InstanceId
    produce_bytes_per_second: int | None = None
    consume_bytes_per_second: int | None = None
    storage_bytes: int | None = None
    """Of the instance's records, each counted once, not once a replica."""
    listeners: tuple[InstanceListener, ...] = ()
    """None for the default instance, which has the gateways' own ports."""
    allowed_networks: tuple[str, ...] | None = None
    """From where clients may connect, in CIDR notation, IPv4 or IPv6. None: from anywhere; (): from nowhere."""
    connections_max: int | None = None
    """At each gateway."""
    partitions_max: int | None = None
    groups_max: int | None = None
    """Groups with members or offsets."""
    message_bytes_max: int | None = None
    """Upper bound for its topics' max.message.bytes."""
    token_audience: str = ""
    """Tokens of the gateways' issuer whose `aud` holds it open its ports; empty: no token does. The default
    instance goes by the gateways' settings instead, as with certificates."""
    certificates: bool = False
    """True: a client that shows a certificate is called by it; else it is as one without."""
    open_if_no_acl: bool | None = None
    """Whether everybody may use resources that no ACL is about; None: as the gateway's setting says."""
    delete_protection: bool = False
    """True: DeleteInstance is refused until it has been turned off."""
    purge_at_ms: int | None = None
    """Set when the instance is deleted: its ports are closed, and its topics, users and ACLs are removed at
    this wall-clock time, in milliseconds since the epoch. Until then it can be restored."""

    @property
    def is_deleted(self) -> bool:
        """True while it only waits to be purged."""
        return self.purge_at_ms is not None

    @property
    def has_traffic_limits(self) -> bool:
        """True if nodes meter it: it has a limit of produce, consume or storage."""
        return (
            self.produce_bytes_per_second is not None
            or self.consume_bytes_per_second is not None
            or self.storage_bytes is not None
        )

    @property
    def has_reported_limits(self) -> bool:
        """True if nodes tell the quota service what it uses: to be metered, or for its limit of groups."""
        return self.has_traffic_limits or self.groups_max is not None

    def listener(self, name: str) -> InstanceListener | None:
        """Its block on a gateway's listener of that name, or None."""
        for each in self.listeners:
            if each.listener == name:
                return each
        return None


def node_port(bootstrap: int, node: NodeId, *, single_port: bool) -> int:
    """The port of a node in a block that begins with the bootstrap port."""
    return bootstrap if single_port else bootstrap + node
