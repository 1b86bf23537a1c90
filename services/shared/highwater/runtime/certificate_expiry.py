"""When certificates end: as a metric of each service, and in the log when it is soon."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.runtime.logging import Logger

SOON_S: Final = 14 * 86_400
LOOK_S: Final = 3600.0
AGAIN_S: Final = 86_400
"""A certificate that ends soon is told of once a day."""
_REMEMBERED: Final = 32

Certificates = Mapping[str, bytes]
"""PEM files as they are in use, by what they are for: `inner`, `etcd`, `listener/<name>`."""


@lru_cache(_REMEMBERED)
def expires_s(pem: bytes) -> int | None:
    """When the first certificate of a chain ends, in seconds since 1970.

    None if it cannot be told: OpenSSL uses some certificates that this parser refuses.
    """
    from cryptography import x509  # Slow to import, and only needed where there are certificates.

    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return None
    return int(found[0].not_valid_after_utc.timestamp())


class CertificateExpiry(Collector):
    """The certificates of one service. Lives as long as that."""

    def __init__(
        self,
        service: str,
        read: Callable[[], Certificates],
        log: Logger,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`service` is its name in metrics; `read` gives what is in use now."""
        self._name = f"highwater_{service}_certificate_expiry_timestamp_seconds"
        self._read = read
        self._log = log
        self._now_s = now_s
        self._told_s: dict[str, float] = {}

    def collect(self) -> Iterable[Metric]:
        """Reads them at a scrape."""
        family = GaugeMetricFamily(
            self._name,
            "When a certificate that is in use ends, in seconds since 1970: of the gateway's listeners "
            "(`listener/<name>`), of the service's port and calls (`inner`), for etcd (`etcd`).",
            labels=("certificate",),
        )
        for name, ends_s in self._ends().items():
            family.add_metric((name,), ends_s)
        yield family

    def warn(self) -> None:
        """Tells of those that end soon, or have ended; of each one once a day."""
        now_s = self._now_s()
        for name, ends_s in self._ends().items():
            if ends_s - now_s >= SOON_S:
                self._told_s.pop(name, None)  # A new one.
            elif now_s - self._told_s.get(name, -AGAIN_S) >= AGAIN_S:
                self._told_s[name] = now_s
                left_days = round((ends_s - now_s) / 86_400, 1)
                self._log.warning("certificate_ends_soon", certificate=name, left_days=left_days)

    def _ends(self) -> dict[str, int]:
        found = {name: expires_s(pem) for name, pem in self._read().items()}
        return {name: ends_s for name, ends_s in found.items() if ends_s is not None}


def watch_certificates(
    stack: AsyncExitStack,
    registry: CollectorRegistry,
    service: str,
    read: Callable[[], Certificates],
    log: Logger,
) -> None:
    """Shows when a service's certificates end, and warns of it, until the stack is closed."""
    watched = CertificateExpiry(service, read, log)
    registry.register(watched)
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        timer = loop.call_later(LOOK_S, look)
        watched.warn()

    def end() -> None:
        timer.cancel()

    look()
    stack.callback(end)
