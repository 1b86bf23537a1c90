"""The members of an etcd cluster: a connection to each, and the choice of the next one.

After a failure, calls and streams both leave a member alone for a while, so that neither leads the
other back to a paused member.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from highwater.controller.store.etcd_security import PLAIN, EtcdSecurity
from highwater.controller.store.etcd_stubs import etcd3, rpc_pb2, rpc_pb2_grpc
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT, options_to_others

COOL_DOWN_MS: Final = 5_000

_WITH_LEADER: Final = ("hasleader", "true")
"""Makes a member end a stream if it has no leader."""


class EtcdMember:
    """One member. Its blocking client belongs to the store's thread, its channel to the loop.

    With a user, client and channel each log in for a token. Members drop unused tokens, and all
    tokens at a restart, so after any failure both log in again. If files of certificates have changed by
    then, both also connect anew: the connections that are open know the former ones.
    """

    def __init__(
        self, endpoint: str, call_timeout_s: float, security: EtcdSecurity = PLAIN
    ) -> None:
        self._security = security
        self._token: str | None = None
        self._client_is_stale = False
        self._channel_is_stale = False
        self._files = security.files
        self.endpoint = endpoint
        self._timeout_s = call_timeout_s
        self._client: Any = None
        self._channel: grpc.aio.Channel | None = None

    def client(self) -> Any:
        """The `etcd3` client of this member, for keys, transactions and leases."""
        if self._client_is_stale:
            self._client_is_stale = False
            self.close_client()
        if self._client is None:
            host, _, port = self.endpoint.rpartition(":")
            self._client = etcd3.client(
                host=host,
                port=int(port),
                timeout=self._timeout_s,
                ca_cert=_text(self._security.ca_file),
                cert_cert=_text(self._security.cert_file),
                cert_key=_text(self._security.key_file),
                user=self._security.user,
                password=self._security.password,
                grpc_options=[
                    *options_to_others(MESSAGE_BYTES_MAX_DEFAULT),
                    ("grpc.enable_http_proxy", 0),
                    ("grpc.initial_reconnect_backoff_ms", 50),
                    # How long one attempt to connect may take, despite the option's name.
                    ("grpc.min_reconnect_backoff_ms", 5_000),
                    ("grpc.max_reconnect_backoff_ms", 500),
                ],
            )
        return self._client

    async def stream_metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata that streams on the loop's channel must carry; asked for before a stub. Raises
        grpc.RpcError.
        """
        if self._channel_is_stale:
            self._channel_is_stale = False
            await self.close_channel()
        if self._security.user is None:
            return (_WITH_LEADER,)
        token = self._token
        if token is None:
            stub: Any = rpc_pb2_grpc.AuthStub(self._open_channel())  # type: ignore[no-untyped-call]
            request = rpc_pb2.AuthenticateRequest(
                name=self._security.user, password=self._security.password
            )
            token = str((await stub.Authenticate(request, timeout=self._timeout_s)).token)
            self._token = token
        return (_WITH_LEADER, ("token", token))

    def begin_anew(self) -> None:
        """Makes the next call log in again, with the certificates of now; from any thread."""
        files = self._security.files
        if files != self._files and all(files):
            self._files = files
            self._client_is_stale = self._channel_is_stale = True
        if self._security.user is not None:
            self._token = None
            self._client_is_stale = True

    def watch_stub(self) -> Any:
        """A stub for watches, on the loop."""
        return rpc_pb2_grpc.WatchStub(self._open_channel())  # type: ignore[no-untyped-call]

    def lease_stub(self) -> Any:
        """A stub for keep-alives, on the loop."""
        return rpc_pb2_grpc.LeaseStub(self._open_channel())  # type: ignore[no-untyped-call]

    def close_client(self) -> None:
        """Closes the blocking client; on the store's thread."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def close_channel(self) -> None:
        """Closes the loop's channel."""
        if self._channel is not None:
            await self._channel.close(None)
            self._channel = None

    def _open_channel(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = open_channel(
                self.endpoint, credentials=self._security.channel_credentials()
            )
        return self._channel


class EtcdMembers:
    """All members, with cool-downs. Used from the loop and from the store's thread."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        call_timeout_s: float,
        now_ms: Callable[[], int],
        security: EtcdSecurity = PLAIN,
    ) -> None:
        """`now_ms` is a monotonic clock."""
        assert endpoints
        self._members = tuple(
            EtcdMember(endpoint, call_timeout_s, security) for endpoint in endpoints
        )
        self._now_ms = now_ms
        self.closed = False
        self._lock = threading.Lock()
        self._cool_until_ms = {member.endpoint: 0 for member in self._members}

    def __iter__(self) -> Any:
        """All members."""
        return iter(self._members)

    def __len__(self) -> int:
        """Their number."""
        return len(self._members)

    async def close(self) -> None:
        """Closes the loop's channels and ends all watches."""
        self.closed = True
        for member in self._members:
            await member.close_channel()

    def pick(self) -> EtcdMember:
        """The first member that is not cooling down, else the one whose cool-down ends first."""
        with self._lock:
            now_ms = self._now_ms()
            for member in self._members:
                if self._cool_until_ms[member.endpoint] <= now_ms:
                    return member
            return min(self._members, key=lambda member: self._cool_until_ms[member.endpoint])

    def failed(self, member: EtcdMember) -> None:
        """Leaves the member alone for a while."""
        member.begin_anew()
        with self._lock:
            self._cool_until_ms[member.endpoint] = self._now_ms() + COOL_DOWN_MS


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
