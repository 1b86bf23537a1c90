"""Those who are connected to a gateway, counted by listener and by address."""

from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from highwater.gateway.routing.client import ClientInfo

_T = TypeVar("_T")


class Crowd(set[_T], Generic[_T]):
    """A set that is changed by `add` and `discard` only. Lives as long as the listener."""

    def __init__(self, client_of: Callable[[_T], ClientInfo]) -> None:
        """`client_of` one, whose listener and address stay the same while it is here."""
        super().__init__()
        self._client_of = client_of
        self._by: Counter[str] = Counter()
        self._of: Counter[str] = Counter()

    def add(self, one: _T) -> None:
        """It is here."""
        if one not in self:
            super().add(one)
            client = self._client_of(one)
            self._by[client.peer.listener] += 1
            self._of[client.requester.host] += 1

    def discard(self, one: object) -> None:
        """It is not here any more."""
        if one not in self:
            return
        super().discard(cast("_T", one))
        client = self._client_of(cast("_T", one))
        for counter, key in (
            (self._by, client.peer.listener),
            (self._of, client.requester.host),
        ):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def by(self, listener: str) -> int:
        """How many have come by that listener."""
        return self._by[listener]

    def of(self, host: str) -> int:
        """How many are of that address, in its canonical form."""
        return self._of[host]
