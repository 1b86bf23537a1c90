"""Whom a server serves: peers whose certificate has an allowed name, and calls that show the secret.

Asked once for each connection and once for each call, before the call has a handler or any state.
Without settings there is no guard, and nothing is asked.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger
from highwater.runtime.shared_secret import METADATA_KEY, SharedSecret

NO_SECRET: Final = "the call does not show the cluster's secret"  # noqa: S105 - words for people.
WRONG_SECRET: Final = "the call shows another secret than the cluster's"  # noqa: S105 - likewise.

PROOF_S: Final = 10.0
"""A connection has this long for its first call that shows the secret; our peers connect to call."""
IDLE_MS_MAX: Final = 30_000
"""On ports of grpcio: a connection without a call is closed, as refused calls do not close it. Those
of our members have a stream, or a heartbeat each second."""
REFUSALS_MAX: Final = 20
"""Refused calls that end their connection."""

_NAMED: Final = frozenset({"DNS", "IP Address", "URI"})


class Guard:
    """Lives as long as its server, on one loop."""

    def __init__(
        self,
        *,
        secret: SharedSecret | None,
        names: Iterable[str],
        log: Logger,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """`names`: those of which a peer's certificate needs one; empty if any will do."""
        self._secret = secret
        self.names = frozenset(name.lower() for name in names)
        self._log = log
        self._limit = LogLimit(monotonic_ms)

    @property
    def asks_for_secret(self) -> bool:
        """Whether calls have to show it."""
        return self._secret is not None

    def refusal(self, metadata: Iterable[tuple[str, str | bytes]]) -> str:
        """Why a call with this metadata is refused; empty if it is not."""
        if self._secret is None:
            return ""
        shown = [value for key, value in metadata if key == METADATA_KEY]
        if not shown:
            return NO_SECRET
        return "" if len(shown) == 1 and self._secret.is_proved_by(shown[0]) else WRONG_SECRET

    def knows(self, names: Iterable[str]) -> bool:
        """Whether a peer whose certificate has these names may call."""
        return not self.names or any(name.lower() in self.names for name in names)

    def tell_call(self, *, peer: str, path: str, reason: str) -> None:
        """Logs a refused call, with a limit."""
        self._limit.write(
            self._log.warning, "inner_call_refused", peer=_host(peer), path=path, reason=reason
        )

    def tell_peer(self, *, peer: str, names: Iterable[str]) -> None:
        """Logs a refused connection, with a limit."""
        self._limit.write(
            self._log.warning, "inner_peer_refused", peer=_host(peer), names=sorted(names)
        )


def names_of(certificate: Mapping[str, Any] | None) -> list[str]:
    """The names in a certificate as `ssl` gives it: CN, and DNS names, addresses, URIs."""
    if not certificate:
        return []
    names = [
        value
        for each in certificate.get("subject", ())
        for key, value in each
        if key == "commonName"
    ]
    return names + [
        value for kind, value in certificate.get("subjectAltName", ()) if kind in _NAMED
    ]


def _host(peer: str) -> str:
    """A peer without its port, which is another one each time."""
    return peer.rpartition(":")[0] or peer
