"""What handlers of SASL requests may do with their connection's login."""

from typing import NamedTuple, Protocol

from highwater.kafka.error_codes import ErrorCode


class Step(NamedTuple):
    """What a mechanism makes of a token: one for the client, and who that is, once it is known."""

    token: bytes
    user: str | None = None
    good_ms: int | None = None
    """How long what the client has shown is good for; None for ever."""


class LoginPort(Protocol):
    """The login of one connection, on a listener that asks for one."""

    @property
    def offered(self) -> tuple[str, ...]:
        """Names of the mechanisms."""
        ...

    @property
    def mechanism(self) -> str:
        """The one that the client has chosen."""
        ...

    @property
    def expects_token(self) -> bool:
        """True between a handshake and the login's end."""
        ...

    @property
    def lifetime_ms(self) -> int:
        """How long the newest login is good for; 0 for as long as the connection."""
        ...

    def handshake(self, mechanism: str) -> ErrorCode:
        """Takes the client's choice; the connection is closed after some of the codes."""
        ...

    async def take(self, token: bytes) -> Step:
        """Takes a token. Raises LoginRefused, late; then the connection is closed after the answer."""
        ...

    def close(self) -> None:
        """The connection is closed."""
        ...
