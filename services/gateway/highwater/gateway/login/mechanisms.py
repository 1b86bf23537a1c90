"""The SASL mechanisms, each as a function of tokens. A login takes at most two tokens from the client."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.scram_server import LoginRefused, ScramServer
from highwater.gateway.login.users import Users
from highwater.model.ids import InstanceId
from highwater.model.scram import OAUTHBEARER, PLAIN, ScramMechanism

PASSWORD_BYTES_MAX: Final = 4096


_T = TypeVar("_T")


class OnThread(Protocol):
    """Calls a function that takes some ms of a processor on another thread."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """What `work` returns, later; raises what it raises."""
        ...


class Exchange(Protocol):
    """One login."""

    async def take(self, token: bytes) -> Step:
        """Takes the client's next token. Raises LoginRefused."""
        ...


class ScramExchange:
    """SCRAM-SHA-256 and SCRAM-SHA-512."""

    def __init__(self, server: ScramServer) -> None:
        self._server = server
        self._is_begun = False

    async def take(self, token: bytes) -> Step:
        """See `Exchange`."""
        if self._is_begun:
            answer = self._server.final(token)
            return Step(answer, self._server.user)
        self._is_begun = True
        return Step(self._server.first(token))


class PlainExchange:
    """PLAIN (RFC 4616): `[authzid] NUL user NUL password`, in the clear."""

    def __init__(
        self,
        users: Users,
        instance: InstanceId,
        on_thread: OnThread,
    ) -> None:
        self._users = users
        self._instance = instance
        self._on_thread = on_thread

    async def take(self, token: bytes) -> Step:
        """See `Exchange`."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise LoginRefused("malformed token of PLAIN")
        authzid, name, password = parts
        if not name or not password or len(password) > PASSWORD_BYTES_MAX:
            raise LoginRefused("no user, no password, or one that is too long")
        if authzid and authzid != name:
            raise LoginRefused("it asks to act as another user")
        try:
            user = name.decode()
        except UnicodeDecodeError:
            raise LoginRefused("the user name is not UTF-8") from None
        check = self._users.password_check(self._instance, user, password)
        if not await self._on_thread(check):
            raise LoginRefused("wrong user or password")
        return Step(b"", user)


class Mechanisms:
    """Begins logins. Lives as long as the gateway."""

    def __init__(
        self,
        users: Users,
        *,
        nonce: Callable[[], str],
        on_thread: Callable[[InstanceId], OnThread],
        by_token: Callable[[InstanceId], Exchange] | None = None,
        takes_tokens: Callable[[InstanceId], bool] = lambda _instance: True,
    ) -> None:
        """`nonce` returns a new random text of printable characters without a comma. `on_thread` is that of an
        instance. `by_token`
        begins a login by OAUTHBEARER to an instance; None if no listener offers it. `takes_tokens`
        says whether any token opens the ports of an instance.
        """
        self._users = users
        self._nonce = nonce
        self._on_thread = on_thread
        self._by_token = by_token
        self._takes_tokens = takes_tokens

    def offered(self, names: tuple[str, ...], instance: InstanceId) -> tuple[str, ...]:
        """Those of a listener's mechanisms by which somebody can log in to the instance now."""
        if OAUTHBEARER not in names or self._takes_tokens(instance):
            return names
        return tuple(name for name in names if name != OAUTHBEARER)

    def begin(self, name: str, instance: InstanceId) -> Exchange:
        """A login by one of `MECHANISMS` to an instance."""
        if name == OAUTHBEARER:
            assert self._by_token is not None, "the settings have been checked"
            return self._by_token(instance)
        scram = _SCRAM.get(name)
        if scram is None:
            assert name == PLAIN
            return PlainExchange(self._users, instance, self._on_thread(instance))
        find = partial(self._users.find, instance, mechanism=scram)
        return ScramExchange(ScramServer(scram, find=find, nonce=self._nonce()))


_SCRAM: Final[Mapping[str, ScramMechanism]] = {one.mechanism_name: one for one in ScramMechanism}
