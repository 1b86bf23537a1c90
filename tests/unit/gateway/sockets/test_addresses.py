import ssl

import pytest

from highwater.gateway.config import GatewayConfig, ListenerConfig, TlsSettings
from highwater.gateway.sockets.addresses import listen_addresses
from highwater.model.errors import ConfigError
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.support.certificates import make_certificate


def with_tls(**tls):
    secure = ListenerConfig(port=19092, sasl_mechanisms=("plain",), tls=TlsSettings(**tls))
    return GatewayConfig(host="here", listeners={"Secure": secure})


def test_each_listener_has_what_its_settings_say(tmp_path):
    cert, key = make_certificate(tmp_path)
    found = listen_addresses(
        with_tls(
            cert_file=str(cert),
            key_file=str(key),
            principal_rules=("RULE:^.*$/x/",),
            enabled_protocols=("TLSv1.2",),
        )
    )
    assert list(found) == [DEFAULT_LISTENER, "secure"]
    default, secure = found.values()
    assert (default.host, default.tls, default.sasl_mechanisms) == ("here", None, ())
    assert secure.tls is not None
    assert secure.tls.context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert secure.sasl_mechanisms == ("PLAIN",)
    assert secure.principal_rules.name_of("CN=alice") == "x"


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ({"principal_rules": ("nonsense",)}, "listener secure: not a rule"),
        ({"cert_file": "/no.pem", "key_file": "/no.key"}, "/no.pem: No such file"),
    ],
)
def test_settings_that_cannot_be_used(tls, why):
    with pytest.raises(ConfigError, match=why):
        listen_addresses(with_tls(**tls))


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ({"cert_file": "/a"}, "both cert_file and key_file"),
        ({"client_auth": "required"}, "client_ca_file"),
        ({"enabled_protocols": ()}, "at least 1 item"),
        ({"enabled_protocols": ("TLSv1.1",)}, "TLSv1.2"),
    ],
)
def test_settings_that_do_not_go_together(tls, why):
    with pytest.raises(ValueError, match=why):
        TlsSettings(**tls)
