"""Which client quotas apply to a client, and with whom it shares them (KIP-55, KIP-546).

Kafka's order (`ClientQuotaManager.DefaultQuotaCallback`), for each kind of quota by itself:

    entity                          measured together
    user, client id                 this user with this client id
    user, default client id         likewise
    user                            this user
    default user, client id         this user with this client id
    default user, default client    likewise
    default user                    this user
    client id                       this client id
    default client id               this client id

A default stands for everybody of its kind who has no quota of his own; each of them gets all of it.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from highwater.model.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotaKey,
    QuotaEntity,
)
from highwater.model.ids import InstanceId
from highwater.model.steps import Steps

ClientQuotaTable = Mapping[ClientQuotaKey, Mapping[str, float]]
"""`ClusterImage.client_quotas`."""
_KINDS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
_STEP_ENTITIES: Final = 500


class Measured(NamedTuple):
    """What is measured together; an empty user or client id stands for all of them."""

    kind: str
    instance: InstanceId
    user: str
    client_id: str


class Limit(NamedTuple):
    """A quota's value per second: bytes, percent of a loop's time times seconds, or partitions."""

    rate: float
    measured: Measured


class ClientLimits(NamedTuple):
    """The quotas of one client; None where there is no limit."""

    produce: Limit | None
    consume: Limit | None
    request: Limit | None
    mutation: Limit | None


def limits_of(
    quotas: ClientQuotaTable, instance: InstanceId, user: str, client_id: str
) -> ClientLimits | None:
    """The quotas that apply to a client; None if there are none."""
    found: dict[str, Limit] = {}
    for entity, together in _in_order(user, client_id):
        for kind, rate in quotas.get(ClientQuotaKey(instance, entity), _NO_VALUES).items():
            found.setdefault(kind, Limit(rate, Measured(kind, instance, *together)))
    return ClientLimits(*map(found.get, _KINDS)) if found else None


_NO_VALUES: Final[Mapping[str, float]] = {}


def _in_order(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str, str]]]:
    """The entities that a client belongs to, each with the user and client id measured together."""
    both = (user, client_id)
    for user_part in ((USER, user), (USER, None)):
        yield ((CLIENT_ID, client_id), user_part), both
        yield ((CLIENT_ID, None), user_part), both
        yield (user_part,), (user, "")
    yield ((CLIENT_ID, client_id),), ("", client_id)
    yield ((CLIENT_ID, None),), ("", client_id)


class AddressLimits:
    """The connection rates of addresses (KIP-612), from one version of the quotas."""

    __slots__ = ("_rates",)

    def __init__(self, rates: Mapping[tuple[InstanceId, str | None], float]) -> None:
        self._rates = rates

    def __bool__(self) -> bool:
        """True if any address has a limit."""
        return bool(self._rates)

    def limit_of(self, instance: InstanceId, host: str) -> float | None:
        """Connections a second that an address may open; None without a limit."""
        rates = self._rates
        name = canonical_address(host)
        own = rates.get((instance, name))
        return rates.get((instance, None)) if own is None else own


NO_ADDRESS_LIMITS: Final = AddressLimits({})


def address_limits_of(quotas: ClientQuotaTable) -> Steps[AddressLimits]:
    """Those of all entities that are addresses, in steps."""
    rates: dict[tuple[InstanceId, str | None], float] = {}
    for number, (key, values) in enumerate(quotas.items()):
        if number % _STEP_ENTITIES == 0:
            yield
        rate = values.get(CONNECTION_CREATION_RATE)
        if rate is not None:
            name = dict(key.entity)[IP]
            rates[key.instance, None if name is None else canonical_address(name)] = rate
    return AddressLimits(rates)


def canonical_address(host: str) -> str:
    """One spelling for all of an address; one of IPv4 that came by a socket of IPv6 is of IPv4."""
    try:
        address = ip_address(host)
    except ValueError:
        return host  # The path of a unix socket, or nothing.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(address if mapped is None else mapped)
