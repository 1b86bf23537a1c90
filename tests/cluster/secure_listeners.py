"""A cluster with a listener for each way to connect, with and without a login, and who may use it.

Nobody but alice may do anything, unless a topic's name begins with OPEN: so a client that gets
through has been taken for her, whether by its login or by its certificate.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.cluster.runner import HOST, MODES, Up, run
from tests.conformance.topics import unique_name
from tests.support.certificates import Authority, Certificate, make_authority
from tests.support.process import free_port_block
from tests.support.tokens import Issuer

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM, "OAUTHBEARER")
USER: Final = "alice"
PASSWORD: Final = "a, b=c and ü"
"""What SCRAM and properties have to escape, and what they need not."""
OPEN: Final = "open"
PATIENCE_S: Final = 60.0
_AUDIENCE: Final = "highwater"
_TOKEN_S: Final = 3600.0


class Wire(StrEnum):
    """How bytes get there."""

    PLAINTEXT = "plain"
    TLS12 = "tls12"
    TLS13 = "tls13"
    MUTUAL = "mutual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One cell of wires and mechanisms; without a mechanism there is no login."""

    wire: Wire
    mechanism: str | None = None

    def __str__(self) -> str:
        return f"{self.wire}-{self.mechanism or 'none'}"

    @property
    def listener(self) -> str:
        return self.wire if self.mechanism is None else f"{self.wire}-login"

    @property
    def protocol(self) -> str:
        """`security.protocol`."""
        sasl = "" if self.mechanism is None else "SASL_"
        return sasl + ("PLAINTEXT" if self.wire is Wire.PLAINTEXT else "SSL")

    @property
    def is_anonymous(self) -> bool:
        return self.mechanism is None and self.wire is not Wire.MUTUAL


WAYS: Final = tuple(
    Way(wire=wire, mechanism=mechanism) for wire in Wire for mechanism in (None, *MECHANISMS)
)


class SecureCluster:
    """`highwater up` with a listener for each `Way.listener`."""

    def __init__(self, mode: str, directory: Path) -> None:
        self._directory = directory
        self._block = MODES[mode][0] + 1
        self.authority: Authority = make_authority(directory / "servers")
        """Whom clients trust."""
        clients = make_authority(directory / "clients")
        self.certificate: Certificate = clients.issue(USER)
        """That of alice, for those who do not log in."""
        self.machine: Certificate = clients.issue("machine")
        """That of one on which people log in: who they are is said by their logins."""
        strangers = make_authority(directory / "strangers")
        self.stranger: Certificate = strangers.issue(USER)
        """Of somebody whom nobody trusts."""
        self.strangers: Authority = strangers
        self._issuer = Issuer()
        (directory / "keys.json").write_bytes(self._issuer.document())
        names = dict.fromkeys(way.listener for way in WAYS)
        port = free_port_block(len(names) * self._block)
        self._ports = {name: port + self._block * index for index, name in enumerate(names)}
        settings = [*self._gateway_settings(), *self._listener_settings(clients)]
        self.up = Up(mode, directory, extra=tuple(w for each in settings for w in ("--set", each)))

    def start(self) -> None:
        """Returns when all may connect."""
        self.up.start()
        file = self._directory / "password"
        file.write_text(PASSWORD)
        done = run(
            *("user", "set", USER, "--mechanism", SCRAM[0], "--password-file", str(file)),
            *("--data-dir", str(self.up.data_dir)),
        )
        assert done.returncode == 0, done.stderr
        admin = self._admin()
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([change])[USER].result(PATIENCE_S)
        allowed = [_open_to_anybody(kind) for kind in (ResourceType.TOPIC, ResourceType.GROUP)]
        for future in admin.create_acls(allowed).values():
            future.result(PATIENCE_S)

    def stop(self) -> None:
        self.up.stop()

    def bootstrap(self, way: Way) -> str:
        return f"{HOST}:{self._ports[way.listener]}"

    def new_topic(self, way: Way, hint: str) -> str:
        """With one partition; the way's client may use it, and a group of the same name."""
        name = unique_name(f"{OPEN}-{hint}" if way.is_anonymous else hint)
        admin = self._admin()
        admin.create_topics([NewTopic(name, 1)])[name].result(PATIENCE_S)
        return name

    def client_certificate(self, way: Way) -> Certificate | None:
        """What a client of this way shows."""
        if way.wire is not Wire.MUTUAL:
            return None
        return self.certificate if way.mechanism is None else self.machine

    def token(self) -> str:
        return self._issuer.token(USER, good_s=_TOKEN_S, aud=_AUDIENCE)

    def librdkafka(self, way: Way, password: str = PASSWORD) -> dict[str, Any]:
        """Settings of librdkafka, without those of OAUTHBEARER, which are code."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap(way),
            "security.protocol": way.protocol,
        }
        if way.wire is not Wire.PLAINTEXT:
            settings["ssl.ca.location"] = str(self.authority.certificate)
        shown = self.client_certificate(way)
        if shown is not None:
            settings |= {
                "ssl.certificate.location": str(shown[0]),
                "ssl.key.location": str(shown[1]),
            }
        if way.mechanism is not None:
            settings["sasl.mechanism"] = way.mechanism
        if way.mechanism not in {None, "OAUTHBEARER"}:
            settings |= {"sasl.username": USER, "sasl.password": password}
        return settings

    def _admin(self) -> AdminClient:
        """By the way that the first user opens."""
        return AdminClient(self.librdkafka(Way(wire=Wire.PLAINTEXT, mechanism=SCRAM[0])))

    def _gateway_settings(self) -> list[str]:
        return [
            "gateway.authorizer=acl",
            f'gateway.super_users=["User:{USER}"]',
            f"gateway.oauth.jwks_url={(self._directory / 'keys.json').as_uri()}",
            f'gateway.oauth.audiences=["{_AUDIENCE}"]',
        ]

    def _listener_settings(self, clients: Authority) -> list[str]:
        cert, key = self.authority.issue("localhost")
        versions = {Wire.TLS12: ["TLSv1.2"], Wire.TLS13: ["TLSv1.3"]}
        settings: list[str] = []
        for way in {way.listener: way for way in WAYS}.values():
            listener = f"gateway.listeners.{way.listener}"
            settings.append(f"{listener}.port={self._ports[way.listener]}")
            if way.mechanism is not None:
                settings.append(f"{listener}.sasl_mechanisms={json.dumps(MECHANISMS)}")
            if way.wire is Wire.PLAINTEXT:
                continue
            settings += [f"{listener}.tls.cert_file={cert}", f"{listener}.tls.key_file={key}"]
            if way.wire in versions:
                enabled = json.dumps(versions[way.wire])
                settings.append(f"{listener}.tls.enabled_protocols={enabled}")
            if way.wire is Wire.MUTUAL:
                settings += [
                    f"{listener}.tls.client_auth=required",
                    f"{listener}.tls.client_ca_file={clients.certificate}",
                    f'{listener}.tls.principal_rules=["RULE:^CN=(.*)$/$1/"]',
                ]
        return settings


def _open_to_anybody(kind: ResourceType) -> AclBinding:
    """Only those without a name need it."""
    return AclBinding(
        kind,
        OPEN,
        ResourcePatternType.PREFIXED,
        "User:ANONYMOUS",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
