"""How the services of one process prove to others of the cluster who they are, and ask for the same."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from ipaddress import ip_address

from prometheus_client import CollectorRegistry

from highwater.model.errors import UsageError
from highwater.rpc.guard import Guard
from highwater.rpc.metadata import Metadata
from highwater.rpc.tls import CertificateFiles, ClientTls, ServerTls
from highwater.runtime.certificate_expiry import Certificates, watch_certificates
from highwater.runtime.clock import SystemClock
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import Logger, silent_logger
from highwater.runtime.shared_secret import METADATA_KEY, SharedSecret, is_open_to_others


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Inner:
    """Lives as long as its service. Without settings all is plain and nothing is asked."""

    def __init__(self, settings: InnerSettings | None = None, log: Logger | None = None) -> None:
        """Reads the files. Raises ConfigError or another UsageError."""
        settings = settings or InnerSettings()
        self._log = log or silent_logger()
        self._names = settings.names
        self.secret: SharedSecret | None = None
        self.client_tls: ClientTls | None = None
        self.server_tls: ServerTls | None = None
        path = settings.secret_file
        if path is not None:
            self.secret = SharedSecret(path, on_failure=self._failed)
            if is_open_to_others(path):
                self._log.warning("secret_file_open_to_others", secret_file=str(path))
        trusted = settings.ca_file
        if trusted is not None:
            assert settings.cert_file is not None, "the settings have checked it"
            assert settings.key_file is not None, "the settings have checked it"
            shown = CertificateFiles(certificate=settings.cert_file, key=settings.key_file)
            self.client_tls = ClientTls(trusted=trusted, shown=shown, on_failure=self._failed)
            self.server_tls = ServerTls(trusted=trusted, shown=shown, on_failure=self._failed)

    @property
    def is_open(self) -> bool:
        """True if nothing is asked of anybody."""
        return self.secret is None and self.server_tls is None

    @property
    def proof(self) -> Metadata:
        """What each call has to carry."""
        return () if self.secret is None else ((METADATA_KEY, self.secret.proof),)

    def listens(self, host: str) -> None:
        """Warns if others than this machine's own processes may call a server at this address, and do anything."""
        if self.is_open and not _is_loopback(host):
            self._log.warning("inner_calls_of_anybody", host=host, settings="inner.*")

    def watch_certificates(
        self,
        stack: AsyncExitStack,
        registry: CollectorRegistry,
        service: str,
        others: Callable[[], Certificates] = dict,
    ) -> None:
        """Shows when the certificate in use ends, and `others` of the service, until the stack closes."""

        def read() -> Certificates:
            shown = None if self.server_tls is None else self.server_tls.shown
            inner = {} if shown is None else {"inner": shown.certificate}
            return {**inner, **others()}

        watch_certificates(stack, registry, service, read, self._log)

    @property
    def generation(self) -> int:
        """Grows with the certificates, which channels of grpcio keep as they were."""
        return 0 if self.client_tls is None else self.client_tls.generation

    def guard(self) -> Guard | None:
        """That of a server; None if nothing is asked."""
        if self.is_open:
            return None
        return Guard(
            secret=self.secret,
            names=self._names,
            log=self._log,
            monotonic_ms=SystemClock().monotonic_ms,
        )

    def _failed(self, error: UsageError) -> None:
        self._log.error("inner_files_not_loaded", error=str(error))
