"""A broker whose listeners ask for logins, one of them with TLS too, and somebody who logs in there."""

from __future__ import annotations

import itertools
import re
import ssl
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.metadata import MetadataRequest
from highwater.model.scram import ScramMechanism
from tests.robustness.fuzz.login_frames import FORGED, GUESS, MECHANISMS
from tests.support.certificates import make_certificate, tls_contexts
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.process import free_port_block
from tests.support.raw_login import SALT, ScramClient, choose, give, plain, set_user
from tests.support.tokens import Issuer, message
from tests.support.wire import RawConnection

HOST = "127.0.0.1"
AUDIENCE = "highwater"
USER = "alice"
PASSWORD = "alices-own-password"
NONCE = "alices-own-nonce"
_PAUSE_S = 0.1
_ROUND_S_MAX = 30.0
_SECRETS = (PASSWORD, GUESS, SALT.decode(), NONCE, "Bearer", "eyJ", "salt=", "stored_key")
"""No line of a log has one of these; `eyJ` is how tokens begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The broker, started, and its two listeners with logins."""

    cluster: EmbeddedCluster
    plain_port: int
    tls_port: int
    tls: ssl.SSLContext
    issuer: Issuer

    def connect(self, *, secure: bool) -> RawConnection:
        """A connection that has not logged in."""
        if not secure:
            return RawConnection(HOST, self.plain_port)
        return RawConnection(HOST, self.tls_port).secure(self.tls)

    def log_in(self, connection: RawConnection, mechanism: str) -> None:
        """Logs alice in, and has a request served."""
        assert choose(connection, mechanism) == ErrorCode.NONE
        for scram in ScramMechanism:
            if scram.mechanism_name == mechanism:
                client = ScramClient(mechanism=scram, user=USER, password=PASSWORD, nonce=NONCE)
                challenge = give(connection, client.first())
                assert challenge.error_code == ErrorCode.NONE
                answer = give(connection, client.final(challenge.auth_bytes))
                break
        else:
            token = (
                plain(USER, PASSWORD)
                if mechanism == "PLAIN"
                else message(self.issuer.token(USER, aud=AUDIENCE))
            )
            answer = give(connection, token)
        assert answer.error_code == ErrorCode.NONE, mechanism
        assert connection.ask(MetadataRequest(), 9).brokers

    def check_good_logins(self) -> None:
        """Alice gets in by every mechanism, at both listeners."""
        for secure, mechanism in itertools.product((False, True), MECHANISMS):
            with self.connect(secure=secure) as connection:
                self.log_in(connection, mechanism)

    def check_a_bad_login(self) -> None:
        """A wrong password is refused; the log tells it."""
        with self.connect(secure=False) as connection:
            assert choose(connection, "PLAIN") == ErrorCode.NONE
            answer = give(connection, plain(USER, f"not {PASSWORD}"))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    def check_log(self) -> None:
        """No secret, in the metrics neither, and no line that a client has made."""
        text = self.cluster.process.log_path.read_text(encoding="utf-8", errors="replace")
        assert "login_failed" in text, "there is something to look at"
        page = re.search(r"http://127\.0\.0\.1:\d+/metrics", text)
        assert page is not None
        with urllib.request.urlopen(page[0], timeout=10) as response:
            metrics = response.read().decode()
        assert "highwater_gateway_failed_logins_total" in metrics
        for secret in _SECRETS:
            assert secret not in text, secret
            assert secret not in metrics, secret
        # Whatever a program that reads logs may take for the end of a line.
        assert [line for line in text.splitlines() if line.lstrip().startswith(FORGED)] == []
        assert not any(ord(char) < 32 and char != "\n" for char in text)
        assert self.cluster.complaints() == []


def start_guarded(directory: Path, **settings: str) -> Guarded:
    """Starts it; `settings` are the gateway's."""
    plain_port, tls_port = free_port_block(1), free_port_block(1)
    issuer = Issuer()
    directory.mkdir(exist_ok=True)
    keys = directory / "keys.json"
    keys.write_bytes(issuer.document())
    certificate = make_certificate(directory)
    cert, key = certificate
    offered = ", ".join(f'"{name}"' for name in MECHANISMS)
    cluster = EmbeddedCluster(
        directory,
        settings=(
            f"gateway.listeners.plain-login.port={plain_port}",
            f"gateway.listeners.plain-login.sasl_mechanisms=[{offered}]",
            f"gateway.listeners.tls-login.port={tls_port}",
            f"gateway.listeners.tls-login.sasl_mechanisms=[{offered}]",
            f"gateway.listeners.tls-login.tls.cert_file={cert}",
            f"gateway.listeners.tls-login.tls.key_file={key}",
            f"gateway.oauth.jwks_url={keys.as_uri()}",
            f'gateway.oauth.audiences=["{AUDIENCE}"]',
            *(f"gateway.{name}={value}" for name, value in settings.items()),
        ),
    )
    cluster.start()
    with RawConnection.to(cluster.bootstrap) as operator:
        set_user(operator, USER, PASSWORD)
    _, trusting = tls_contexts(certificate)
    return Guarded(
        cluster=cluster, plain_port=plain_port, tls_port=tls_port, tls=trusting, issuer=issuer
    )


class GoodLogins:
    """Logs in again and again, by every mechanism in turn; use as a context manager.

    Leaving raises the first failure, also a login that took too long, or that there was none.
    """

    def __init__(self, guarded: Guarded) -> None:
        self.rounds = 0
        self.slowest_s = 0.0
        self._guarded = guarded
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="good logins", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(_ROUND_S_MAX * 2)
        assert not self._thread.is_alive(), "a good login hangs"
        print(f"good logins: {self.rounds}, the slowest took {self.slowest_s:.2f} s")
        if self._error is not None:
            raise AssertionError(f"a good login failed after {self.rounds}") from self._error
        assert self.rounds > 0

    def _run(self) -> None:
        ways = itertools.cycle(itertools.product(MECHANISMS, (False, True)))
        try:
            while not self._stopping.wait(_PAUSE_S) or not self.rounds:
                mechanism, secure = next(ways)
                started = time.monotonic()
                with self._guarded.connect(secure=secure) as connection:
                    self._guarded.log_in(connection, mechanism)
                self.rounds += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                assert self.slowest_s < _ROUND_S_MAX
        except BaseException as error:  # noqa: BLE001  # The test's thread raises it.
            self._error = error
