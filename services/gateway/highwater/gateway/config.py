"""Settings of the gateway."""

from itertools import combinations
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from highwater.hop.settings import HopSettings
from highwater.model.authorization import USER
from highwater.model.listener_names import DEFAULT_LISTENER, invalid_listener_names
from highwater.model.networks import Networks
from highwater.model.scram import OAUTHBEARER, SASL_MECHANISMS
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings, SettingsGroup

ALL_ADDRESSES: Final = frozenset(("0.0.0.0", "::", ""))
"""Hosts that mean every address of the machine."""


def share_ports(host: str, other: str) -> bool:
    """True if only one of two listeners on these hosts can have a port; names are not resolved."""
    return host == other or not ALL_ADDRESSES.isdisjoint((host, other))


def _known_mechanisms(names: tuple[str, ...]) -> tuple[str, ...]:
    upper = tuple(name.upper() for name in names)
    for name in upper:
        if name not in SASL_MECHANISMS:
            raise ValueError(f"no SASL mechanism {name!r}: {', '.join(SASL_MECHANISMS)}")
    return upper


SaslMechanisms: TypeAlias = Annotated[
    tuple[str, ...],
    Field(
        description="clients of this listener have to log in by one of these (sasl.enabled.mechanisms): "
        "SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER; none: they need not",
    ),
    AfterValidator(_known_mechanisms),
]


def _known_networks(cidrs: tuple[str, ...] | None) -> tuple[str, ...] | None:
    Networks(cidrs or ())
    return cidrs


ProxyNetworks: TypeAlias = Annotated[
    tuple[str, ...] | None,
    Field(
        description="with proxy_protocol, addresses in CIDR notation that connections may come from, since "
        "who sends a header may say any address; proxy_protocol takes it (0.0.0.0/0 and ::/0 are anywhere)",
    ),
    AfterValidator(_known_networks),
]


def _check_proxies(proxy_protocol: bool, networks: tuple[str, ...] | None) -> None:
    if proxy_protocol and networks is None:
        raise ValueError(
            "proxy_protocol takes proxy_networks: whoever reaches the port may say any address, so name "
            'those of the balancer, as ["10.0.0.5"] (["0.0.0.0/0", "::/0"]: from anywhere)'
        )


class TlsSettings(SettingsGroup):
    """TLS of one listener: off without a certificate."""

    cert_file: str = Field(
        default="", description="PEM file of the listener's certificate chain; turns TLS on"
    )
    key_file: str = Field(default="", description="PEM file of its key")
    client_ca_file: str = Field(
        default="", description="PEM file with whom clients' certificates have to be from"
    )
    client_auth: Literal["none", "requested", "required"] = Field(
        default="none", description="ssl.client.auth: whether clients show a certificate"
    )
    enabled_protocols: tuple[Literal["TLSv1.2", "TLSv1.3"], ...] = Field(
        default=("TLSv1.2", "TLSv1.3"), min_length=1, description="ssl.enabled.protocols"
    )
    principal_rules: tuple[str, ...] = Field(
        default=(),
        description="ssl.principal.mapping.rules: what a client with a certificate is called",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.cert_file) is not bool(self.key_file):
            raise ValueError("TLS takes both cert_file and key_file")
        if self.client_auth != "none" and not (self.cert_file and self.client_ca_file):
            raise ValueError("client_auth takes a certificate and client_ca_file")
        return self


class OAuthSettings(SettingsGroup):
    """Tokens of OAUTHBEARER, for all listeners that offer it (KIP-768)."""

    jwks_url: str = Field(
        default="",
        description="sasl.oauthbearer.jwks.endpoint.url: the issuer's keys, https://... or file:///...",
    )
    issuer: str = Field(
        default="", description="sasl.oauthbearer.expected.issuer; empty: that of any token"
    )
    audiences: tuple[str, ...] = Field(
        default=(),
        description="sasl.oauthbearer.expected.audience: one of them; none: a token names none",
    )
    user_claim: str = Field(
        default="sub",
        min_length=1,
        description="sasl.oauthbearer.sub.claim.name: who the client is",
    )
    skew_s: float = Field(
        default=30, ge=0, le=3600, description="sasl.oauthbearer.clock.skew.seconds"
    )
    refresh_s: float = Field(
        default=3600,
        ge=10,
        description="sasl.oauthbearer.jwks.endpoint.refresh.ms, in seconds: how old the keys may become",
    )

    @field_validator("jwks_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if url and not url.startswith(("https://", "http://", "file:///")):
            raise ValueError("it begins with https://, http:// or file:///")
        return url


class ListenerConfig(SettingsGroup):
    """A further listener of the gateway, with a block of ports and an address of its own."""

    host: str = Field(default="127.0.0.1", description="address that this listener listens on")
    port: int = Field(
        ge=0, le=65535, description="its bootstrap port; node n is served on port + n"
    )
    advertised_host: str = Field(
        default="",
        description="host told to its clients; empty means `host`, or the machine's host name if "
        "that is all addresses",
    )
    advertised_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="bootstrap port as its clients reach it, and node n on that + n; 0 means `port`",
    )
    proxy_protocol: bool = Field(
        default=False, description="its clients come through a balancer, as in `proxy_protocol`"
    )
    proxy_networks: ProxyNetworks = None
    sasl_mechanisms: SaslMechanisms = ()
    tls: TlsSettings = TlsSettings()

    @model_validator(mode="after")
    def _check_balancer(self) -> Self:
        _check_proxies(self.proxy_protocol, self.proxy_networks)
        return self

    def address(self, bound_port: int, machine: str) -> tuple[str, int]:
        """Host and bootstrap port that clients are told; `machine` is the machine's host name."""
        host = self.advertised_host or (machine if self.host in ALL_ADDRESSES else self.host)
        return host, self.advertised_port or bound_port


class GatewayConfig(ServiceSettings):
    """See `highwater gateway --print-config`."""

    service: ClassVar[str] = "gateway"

    host: str = Field(default="127.0.0.1", description="address that clients connect to")
    port: int = Field(
        default=9092,
        ge=0,
        le=65535,
        description="bootstrap port; node n is served on port + n (see single_port)",
    )
    advertised_host: str = Field(default="", description="host told to clients; empty means `host`")
    advertised_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="bootstrap port as clients reach it, and node n on that + n, if ports are "
        "published under other numbers; 0 means `port`",
    )
    single_port: bool = Field(
        default=False, description="one port for everything, for brokers of one node"
    )
    instance_port_shift: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="added to the ports of instances at this gateway, if other gateways have them on the "
        "same host",
    )
    bootstrap_wait_s: float = Field(
        default=0,
        ge=0,
        le=60,
        description="seconds after its start in which a broker (a gateway with a node in its process) "
        "leaves `port` to others on its host, until one has it; then it takes it when it is free",
    )
    proxy_protocol: bool = Field(
        default=False,
        description="clients come through a balancer that sends PROXY protocol v2; connections "
        "without its header are closed, so let only the balancer reach the ports",
    )
    proxy_networks: ProxyNetworks = None
    listeners: dict[str, ListenerConfig] = Field(
        default={},
        description="further listeners by name, for clients that need other addresses; a client "
        "gets those of the listener that it came by (see docs/listeners.md)",
    )
    sasl_mechanisms: SaslMechanisms = ()
    tls: TlsSettings = TlsSettings()
    oauth: OAuthSettings = OAuthSettings()
    authorizer: Literal["none", "acl"] = Field(
        default="none",
        description="acl: clients may do what ACLs allow (authorizer.class.name); none: everything",
    )
    super_users: tuple[str, ...] = Field(
        default=(),
        description="super.users, as User:alice; User:ANONYMOUS is who has not logged in",
    )
    allow_everyone_if_no_acl_found: bool = Field(
        default=False, description="allow.everyone.if.no.acl.found"
    )
    login_s_max: float = Field(
        default=30, gt=0, description="seconds that a client has for its login"
    )
    login_failure_delay_s: float = Field(
        default=0.1,
        ge=0,
        le=60,
        description="connection.failed.authentication.delay.ms, in seconds",
    )
    login_lifetime_s: float = Field(
        default=0,
        ge=0,
        description="connections.max.reauth.ms, in seconds: clients have to log in again that often on "
        "their connections; with 0 a login is good for as long as its connection",
    )
    gateway_id: str = Field(
        default="",
        description="empty means host:port, with the machine's host name if advertised_host is set, and "
        "the node's port if it has a node in its process",
    )
    rack: str = Field(default="", description="empty means the machine's host name")
    controllers: tuple[str, ...] = Field(
        default=("127.0.0.1:9300",), min_length=1, description="host:port of every controller"
    )
    auto_create_topics: bool = Field(
        default=True, description="create topics that clients ask for (auto.create.topics.enable)"
    )
    default_partitions: int = Field(default=1, ge=1, description="num.partitions")
    default_replication_factor: int = Field(
        default=1, ge=1, description="default.replication.factor"
    )
    group_metadata_partitions: int = Field(
        default=50, ge=1, description="offsets.topic.num.partitions"
    )
    group_metadata_replication_factor: int = Field(
        default=-1,
        ge=-1,
        le=100,
        description="offsets.topic.replication.factor; groups wait until the cluster has that many "
        "nodes. With -1 the controller decides by the nodes that are live",
    )
    transaction_state_partitions: int = Field(
        default=50, ge=1, description="transaction.state.log.num.partitions"
    )
    transaction_state_replication_factor: int = Field(
        default=-1,
        ge=-1,
        le=100,
        description="transaction.state.log.replication.factor; transactions wait until the cluster "
        "has that many nodes. With -1 the controller decides by the nodes that are live",
    )
    transaction_state_min_isr: int = Field(
        default=2,
        ge=1,
        description="transaction.state.log.min.isr; with fewer replicas all of them",
    )
    transaction_state_segment_bytes: int = Field(
        default=100 << 20, ge=1 << 20, description="transaction.state.log.segment.bytes"
    )
    request_bytes_max: int = Field(
        default=100 << 20, ge=1024, description="socket.request.max.bytes"
    )
    in_flight_bytes_max: int = Field(
        default=64 << 20, ge=1024, description="unanswered request bytes per connection"
    )
    fetches_max: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Fetch requests that one connection has in flight; others wait their turn",
    )
    memory_budget_bytes: int = Field(
        default=256 << 20,
        ge=1 << 20,
        description="unanswered request bytes of all connections; partly received requests hold "
        "at most a quarter, replies that clients have not read another quarter, fetch sessions an "
        "eighth",
    )
    fetch_sessions_max: int = Field(
        default=1000,
        ge=0,
        description="max.incremental.fetch.session.cache.slots; with 0, clients name all partitions "
        "in each Fetch",
    )
    fetch_session_eviction_s: float = Field(
        default=120,
        ge=0,
        description="min.incremental.fetch.session.eviction.ms, in seconds: how long a fetch session "
        "is safe from larger ones, and may rest, while others want its place",
    )
    held_produce_bytes_max: int = Field(
        default=64 << 20,
        ge=0,
        description="bytes of batches that wait for a new leader, in all; more are refused",
    )
    connections_max: int = Field(default=50_000, ge=1, description="connections at a time")
    idle_s_max: float = Field(default=600, gt=0, description="connections.max.idle.ms, in seconds")
    frame_s_max: float = Field(
        default=30, gt=0, description="seconds that a request may take to arrive in full"
    )
    quota_window_num: int = Field(
        default=11,
        ge=2,
        le=1000,
        description="quota.window.num: how many windows the rates of client quotas are measured over",
    )
    quota_window_size_s: int = Field(
        default=1, ge=1, le=3600, description="quota.window.size.seconds"
    )
    old_message_formats: bool = Field(
        default=False,
        description="serve clients from before Kafka 0.11: Produce 0-2, Fetch 0-3 and ListOffsets 0, with "
        "conversion from and to message formats 0 and 1; it costs this process a lot of time",
    )
    sender_threads: int = Field(
        default=2, ge=1, le=64, description="threads that send large fetches from files"
    )
    drain_s: float = Field(
        default=2.0, ge=0, description="seconds that requests in flight get to end at a stop"
    )
    hop: HopSettings = HopSettings()
    inner: InnerSettings = InnerSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()

    @property
    def all_listeners(self) -> dict[str, ListenerConfig]:
        """Every listener by name, first the default one, which the settings at the top describe."""
        default = ListenerConfig(
            host=self.host,
            port=self.port,
            advertised_host=self.advertised_host or self.host,
            advertised_port=self.advertised_port,
            proxy_protocol=self.proxy_protocol,
            proxy_networks=self.proxy_networks,
            sasl_mechanisms=self.sasl_mechanisms,
            tls=self.tls,
        )
        return {DEFAULT_LISTENER: default, **self.listeners}

    @field_validator("super_users")
    @classmethod
    def _check_principals(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name.startswith(f"{USER}:"):
                raise ValueError(f"a super user is written as {USER}:alice, not {name!r}")
        return names

    @field_validator("listeners")
    @classmethod
    def _check_names(cls, listeners: dict[str, ListenerConfig]) -> dict[str, ListenerConfig]:
        why = invalid_listener_names(listeners)
        if why is not None:
            raise ValueError(why)
        return {name.lower(): listener for name, listener in listeners.items()}

    @model_validator(mode="after")
    def _check_balancer(self) -> Self:
        _check_proxies(self.proxy_protocol, self.proxy_networks)
        return self

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        for name, one in self.all_listeners.items():
            if OAUTHBEARER in one.sasl_mechanisms and not self.oauth.jwks_url:
                raise ValueError(
                    f"listener {name} offers {OAUTHBEARER}, which takes oauth.jwks_url"
                )
        return self

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        for (name, one), (other_name, other) in combinations(self.all_listeners.items(), 2):
            if one.port == other.port != 0 and share_ports(one.host, other.host):
                raise ValueError(
                    f"listeners {name} and {other_name} have the same bootstrap port {one.port}"
                )
        return self
