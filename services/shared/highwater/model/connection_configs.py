"""Broker configs that bound how clients connect, for a whole broker or one of its listeners (KIP-402, KIP-612).

A config of a listener is named `listener.name.` + the listener in lower case + `.` + the broker's config, as in
Kafka; the default listener is `plaintext` there.
"""

from ipaddress import ip_address
from typing import Final

from highwater.model.listener_names import DEFAULT_LISTENER, PROTOCOL, invalid_listener_name
from highwater.model.networks import canonical_address

RATE: Final = "max.connection.creation.rate"
CONNECTIONS: Final = "max.connections"
PER_ADDRESS: Final = "max.connections.per.ip"
PER_ADDRESS_OVERRIDES: Final = "max.connections.per.ip.overrides"

LISTENER_PREFIX: Final = "listener.name."
OF_LISTENERS: Final = (RATE, CONNECTIONS)
"""Those that a listener may have, too."""
NUMBER_DIGITS_MAX: Final = 10
LISTENER_CONFIGS_MAX: Final = 100
"""Of one broker, or of all: some more than gateways have listeners."""


def listener_config_of(name: str) -> tuple[str, str] | None:
    """(listener, the broker's config) of a listener's config; None if it is none."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    for config in OF_LISTENERS:
        listener = name[len(LISTENER_PREFIX) : -len(config) - 1]
        if name != f"{LISTENER_PREFIX}{listener}.{config}":
            continue
        if listener == PROTOCOL.lower():
            return DEFAULT_LISTENER, config
        if listener == listener.lower() and invalid_listener_name(listener) is None:
            return listener, config
    return None


def overrides_of(text: str) -> dict[str, int]:
    """{address: connections} of max.connections.per.ip.overrides. Raises ValueError.

    Kafka looks names of hosts up; here they are addresses.
    """
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = (part.strip() for part in item.rpartition(":"))
        ip_address(host)
        if not (number.isascii() and number.isdecimal() and len(number) <= NUMBER_DIGITS_MAX):
            raise ValueError(f"'{item}' is not an address, a colon and a number")
        found[canonical_address(host)] = int(number)
    return found
