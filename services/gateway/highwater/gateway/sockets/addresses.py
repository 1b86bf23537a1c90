"""Where a gateway listens, and what it asks of clients there, as its settings have it."""

from highwater.gateway.config import GatewayConfig, ListenerConfig
from highwater.gateway.login.principal_rules import PrincipalRules
from highwater.gateway.sockets.newcomers import ListenAddress
from highwater.gateway.sockets.tls import ClientAuth, TlsContext, TlsFiles
from highwater.model.errors import ConfigError
from highwater.model.networks import Networks


def listen_addresses(config: GatewayConfig) -> dict[str, ListenAddress]:
    """The addresses of all listeners, by name. Raises ConfigError."""
    return {
        name: ListenAddress(
            host=one.host,
            proxy_protocol=one.proxy_protocol,
            proxies=None if one.proxy_networks is None else Networks(one.proxy_networks),
            sasl_mechanisms=one.sasl_mechanisms,
            tls=_tls(one),
            principal_rules=_rules(name, one),
        )
        for name, one in config.all_listeners.items()
    }


def _tls(listener: ListenerConfig) -> TlsContext | None:
    tls = listener.tls
    if not tls.cert_file:
        return None
    return TlsContext(
        TlsFiles(
            cert_file=tls.cert_file,
            key_file=tls.key_file,
            client_ca_file=tls.client_ca_file,
            client_auth=ClientAuth(tls.client_auth),
            enabled_protocols=tls.enabled_protocols,
        )
    )


def _rules(name: str, listener: ListenerConfig) -> PrincipalRules:
    try:
        return PrincipalRules(listener.tls.principal_rules)
    except ValueError as error:
        raise ConfigError(f"listener {name}: {error}") from error
