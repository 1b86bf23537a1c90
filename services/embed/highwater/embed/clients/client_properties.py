r"""How a command gets into a listener with TLS or logins: client properties in a file, as Kafka's tools take them.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
      username="alice" password="secret";
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/highwater/ca.pem

Names of librdkafka are known, too: sasl.username, sasl.password, sasl.mechanisms, ssl.ca.location,
ssl.certificate.location and ssl.key.location. All other properties are ignored, as by Kafka.
"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.model.errors import UsageError
from highwater.model.scram import PLAIN, ScramMechanism

FILE_BYTES_MAX: Final = 64 * 1024
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = (*(one.mechanism_name for one in ScramMechanism), PLAIN)
_PROPERTY: Final = re.compile(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*?)\s*")
_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_JAAS_OPTION: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who logs in, and by what."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """What a client does before its first request."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None


def read_properties(path: str) -> BrokerAccess:
    """The access that a file describes. Raises UsageError, which tells nothing of what is in it."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1).decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text") from None
    if len(text) > FILE_BYTES_MAX:
        raise UsageError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return access_of(properties_of(text))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def properties_of(text: str) -> dict[str, str]:
    """A file's properties; the last of a name counts. A line that ends with a backslash goes on, and one before
    another character escapes it.
    """
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)\\\r?\n\s*", "", text).splitlines():
        if line.strip() and line.lstrip()[0] not in "#!":
            parts = _PROPERTY.fullmatch(line)
            if parts is None:
                raise UsageError("a line is no NAME=VALUE")
            found[parts[1]] = _ESCAPED.sub(_unescaped, parts[2])
    return found


def access_of(properties: dict[str, str]) -> BrokerAccess:
    """What the properties ask for. Raises UsageError."""
    protocol = properties.get("security.protocol", _PROTOCOLS[0]).upper()
    if protocol not in _PROTOCOLS:
        raise UsageError(f"security.protocol is one of {', '.join(_PROTOCOLS)}")
    return BrokerAccess(
        tls=_tls(properties) if protocol.endswith("SSL") else None,
        login=_login(properties) if protocol.startswith("SASL") else None,
    )


def _unescaped(escaped: re.Match[str]) -> str:
    """As Java's `Properties.load`."""
    return chr(int(escaped[1], 16)) if escaped[1] else _CONTROLS.get(escaped[2], escaped[2])


def _login(properties: dict[str, str]) -> Login:
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper()
    if mechanism not in _MECHANISMS:
        raise UsageError(f"sasl.mechanism is one of {', '.join(_MECHANISMS)}")
    options = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, value in _JAAS_OPTION.findall(properties.get("sasl.jaas.config", ""))
    }
    user = options.get("username", properties.get("sasl.username", ""))
    password = options.get("password", properties.get("sasl.password", ""))
    if not user or not password:
        raise UsageError("a login takes username and password in sasl.jaas.config")
    return Login(mechanism=mechanism, user=user, password=password)


def _tls(properties: dict[str, str]) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        kind = properties.get(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM":
            raise UsageError(f"ssl.{store}.type is PEM here, not {kind}")
    trusted = properties.get("ssl.truststore.location", properties.get("ssl.ca.location"))
    pair = properties.get("ssl.keystore.location")
    certificate = properties.get("ssl.certificate.location", pair)
    key = properties.get("ssl.key.location", pair)
    password = properties.get("ssl.key.password", "")
    try:
        context = ssl.create_default_context(cafile=trusted or None)
        if certificate:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, password=lambda: password)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"the files of TLS: {error.strerror or error}") from error
    if not properties.get("ssl.endpoint.identification.algorithm", "https"):
        context.check_hostname = False
    return context
