"""The etcd driver: `etcd3` for keys, transactions and leases; stubs for watches and keep-alives.

The library blocks, so its calls run one after the other on a separate thread. A transaction whose
answer is lost may have happened, or may still happen. Therefore each one also compares and sets a
token key of this process. Later the token shows whether the transaction happened, and another
transaction that changes the token prevents it for good. Only then is it sent again.

The token also shows that etcd went back: it is then older than this process knows, so etcd refuses
the transaction. Answers that change nothing show it by the revision in their headers.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc

from highwater.controller.store.etcd_history import EtcdHistory
from highwater.controller.store.etcd_members import EtcdMember, EtcdMembers
from highwater.controller.store.etcd_security import PLAIN, EtcdSecurity
from highwater.controller.store.etcd_stubs import etcd3, rpc_pb2
from highwater.controller.store.etcd_watch import prefix_end, watch_prefix
from highwater.controller.store.port import (
    OPERATIONS_MAX,
    Compare,
    CreateRevisionIs,
    Delete,
    Entry,
    LeaseLostError,
    Operation,
    OutcomeUnknownError,
    Put,
    Snapshot,
    StoreUnavailableError,
    TxnResult,
    WatchBatch,
)
from highwater.model.errors import UsageError

PAGE_KEYS: Final = 1_000
RESOLVE_TIMEOUT_S: Final = 5.0
"""How long an unknown outcome is resolved; etcd's own elections are usually shorter."""

_RETRY_S: Final = 0.1

_FLAT_MAX: Final = 100
_INNER_MAX: Final = 60
"""60 transactions of 60 operations each, the token's two and 64 spare ones: see `_nested`."""
assert OPERATIONS_MAX <= _INNER_MAX * _INNER_MAX
_TOKENS: Final = "tokens/"

_NO_ANSWER: Final = (
    etcd3.exceptions.ConnectionFailedError,
    etcd3.exceptions.ConnectionTimeoutError,
    etcd3.exceptions.InternalServerError,
)

_R = TypeVar("_R")


class EtcdStore:
    """A store in an etcd cluster; other controllers may use the same one."""

    exclusive = False

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str,
        client_id: str,
        call_timeout_ms: int,
        security: EtcdSecurity = PLAIN,
    ) -> None:
        """`client_id` is unique among the processes that use the prefix."""
        assert prefix.endswith("/")
        self._namespace = prefix
        self._token_key = f"{prefix}{_TOKENS}{client_id}"
        self._token_revision = 0
        self._call_timeout_s = call_timeout_ms / 1000
        self._history = EtcdHistory()
        self._members = EtcdMembers(
            endpoints,
            call_timeout_s=self._call_timeout_s,
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
            security=security,
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="etcd")
        self._closed = False

    async def start(self) -> None:
        """Claims the token. Raises UsageError if no member can be reached."""
        try:
            await self._in_thread(self._claim_token)
        except StoreUnavailableError as error:
            raise UsageError(f"cannot use etcd: {error}") from None

    async def close(self) -> None:
        """Ends all watches and closes all connections."""
        if self._closed:
            return
        self._closed = True
        await self._members.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close_clients)
        self._thread.shutdown(wait=False)

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """See the port."""
        assert len(operations) <= OPERATIONS_MAX
        # Cancellation leaves the thread to finish, which keeps the token right.
        return await self._in_thread(self._txn, tuple(compares), tuple(operations))

    async def range(self, prefix: str) -> Snapshot:
        """See the port."""
        return await self._in_thread(self._range, prefix)

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """See the port."""
        batches = watch_prefix(
            self._members, self._namespace, prefix, from_revision, on_header=self._history.note
        )
        try:
            async for batch in batches:
                yield batch
        finally:
            await batches.aclose()

    async def compact(self, revision: int) -> None:
        """See the port; compacts the whole etcd, not only the keys under the prefix."""
        await self._in_thread(self._on_some_member, lambda member: _compact(member, revision))

    async def grant(self, ttl_ms: int) -> int:
        """See the port; etcd counts whole seconds and gives at least about two."""
        seconds = -(-ttl_ms // 1000)
        lease = await self._in_thread(
            self._on_some_member, lambda member: member.client().lease(seconds)
        )
        lease_id = lease.id
        assert isinstance(lease_id, int)
        return lease_id

    async def keep_alive(self, lease: int) -> int:
        """See the port. One call timeout per member at most."""
        last = "no member was asked"
        for _ in range(len(self._members)):
            member = self._members.pick()
            try:
                ttl_s, as_new = await self._keep_alive_on(member, lease)
            except (grpc.RpcError, TimeoutError) as error:
                self._members.failed(member)
                last = f"{member.endpoint}: {type(error).__name__}"
                continue
            if not as_new:
                await self._look_back()
            if ttl_s <= 0:
                raise LeaseLostError(f"lease {lease:x} has ended")
            return ttl_s * 1000
        raise StoreUnavailableError(f"lease not renewed, {last}")

    async def revoke(self, lease: int) -> None:
        """See the port."""
        await self._in_thread(self._revoke, lease)

    async def _in_thread(self, call: Callable[..., _R], *args: object) -> _R:
        if self._closed:
            raise StoreUnavailableError("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    async def _look_back(self) -> None:
        """Checks a member's revision that is behind: the member lags, or etcd went back."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                await self._in_thread(self._read_token)
        except (TimeoutError, StoreUnavailableError):
            return  # No member can tell now. The next answer is checked again.

    async def _keep_alive_on(self, member: EtcdMember, lease: int) -> tuple[int, bool]:
        """The time to live in s, and whether the answer is as new as earlier ones."""
        metadata = await member.stream_metadata()
        call = member.lease_stub().LeaseKeepAlive(metadata=metadata)
        try:
            async with asyncio.timeout(self._call_timeout_s):
                await call.write(rpc_pb2.LeaseKeepAliveRequest(ID=lease))
                response = await call.read()
        except asyncio.InvalidStateError:
            raise TimeoutError("the call ended before it was written") from None
        finally:
            call.cancel()
        if response is grpc.aio.EOF:
            raise TimeoutError("the member closed the stream")
        ttl_s = response.TTL
        assert isinstance(ttl_s, int)
        return ttl_s, self._history.note(response.header)

    # Everything below runs on the store's thread.

    def _close_clients(self) -> None:
        for member in self._members:
            member.close_client()

    def _on_some_member(self, call: Callable[[EtcdMember], _R]) -> _R:
        """Makes a call that is safe to repeat, on one member after the other."""
        last = ""
        for _ in range(len(self._members) + 1):
            member = self._members.pick()
            try:
                return call(member)
            except (*_NO_ANSWER, grpc.RpcError) as error:
                self._members.failed(member)
                last = f"{member.endpoint}: {_explain(error)}"
                time.sleep(_RETRY_S)
        raise StoreUnavailableError(f"no etcd member answers, {last}")

    def _range(self, prefix: str) -> Snapshot:
        self._read_token()
        start = (self._namespace + prefix).encode()
        end = prefix_end(start)
        revision = 0
        entries: list[Entry] = []
        more = True
        while more:
            request = rpc_pb2.RangeRequest(
                key=start, range_end=end, limit=PAGE_KEYS, revision=revision
            )
            response = self._range_once(request)
            revision = revision or response.header.revision
            entries += [self._entry(kv) for kv in response.kvs]
            more = response.more
            if more:
                start = response.kvs[-1].key + b"\0"
        tokens = [e for e in entries if e.key.startswith(_TOKENS)]
        kept = tuple(e for e in entries if not e.key.startswith(_TOKENS)) if tokens else entries
        return Snapshot(revision=revision, entries=tuple(kept))

    def _range_once(self, request: Any) -> Any:
        seen = self._history.revision
        response = self._on_some_member(
            lambda member: _ranged(member, request, self._call_timeout_s)
        )
        self._history.check(response.header, seen)
        return response

    def _read_token(self) -> None:
        """Raises StoreWentBackError if this process's token is older than it was."""
        response = self._range_once(rpc_pb2.RangeRequest(key=self._token_key.encode()))
        for kv in response.kvs:
            self._history.check_key(kv.mod_revision, self._token_revision)

    def _entry(self, kv: Any) -> Entry:
        return Entry(
            key=kv.key.decode().removeprefix(self._namespace),
            value=kv.value,
            create_revision=kv.create_revision,
            mod_revision=kv.mod_revision,
        )

    def _revoke(self, lease: int) -> None:
        try:
            self._on_some_member(lambda member: member.client().revoke_lease(lease))
        except StoreUnavailableError as error:
            if "NOT_FOUND" not in str(error):
                raise

    def _claim_token(self) -> None:
        value = uuid.uuid4().hex

        def put_and_get(member: EtcdMember) -> Any:
            t = member.client().transactions
            return member.client().transaction(
                compare=[],
                success=[t.put(self._token_key, value), t.get(self._token_key)],
                failure=[],
            )

        _, responses = self._on_some_member(put_and_get)
        self._token_revision = responses[-1][0][1].mod_revision

    def _txn(self, compares: tuple[Compare, ...], operations: tuple[Operation, ...]) -> TxnResult:
        deadline = time.monotonic() + RESOLVE_TIMEOUT_S
        while True:
            token = uuid.uuid4().hex
            member = self._members.pick()
            try:
                return self._attempt(member, compares, operations, token)
            except (*_NO_ANSWER, grpc.RpcError) as error:
                _raise_if_refused(error)
                self._members.failed(member)
            revision = self._resolve(token, deadline)
            if revision is not None:
                return TxnResult(succeeded=True, revision=revision)
            # It did not happen and cannot happen any more, so a retry is safe.
            if time.monotonic() >= deadline:
                raise StoreUnavailableError("etcd does not carry out the transaction")

    def _attempt(
        self,
        member: EtcdMember,
        compares: tuple[Compare, ...],
        operations: tuple[Operation, ...],
        token: str,
    ) -> TxnResult:
        t = member.client().transactions
        seen = self._history.revision
        succeeded, responses = member.client().transaction(
            compare=[
                t.mod(self._token_key) == self._token_revision,
                *(self._comparison(t, compare) for compare in compares),
            ],
            success=[
                *_nested(t, [self._request(t, operation) for operation in operations]),
                t.put(self._token_key, token),
                t.get(self._token_key),
            ],
            failure=[t.get(self._token_key)],
        )
        present = responses[-1]
        if not present:
            raise StoreUnavailableError("the token of this controller was removed from etcd")
        metadata = present[0][1]
        self._history.check_key(metadata.mod_revision, self._token_revision)
        self._history.check(metadata.response_header, seen)
        if not succeeded and metadata.mod_revision != self._token_revision:
            self._token_revision = metadata.mod_revision
            raise StoreUnavailableError("another process uses this controller's id")
        self._token_revision = metadata.mod_revision
        return TxnResult(succeeded=succeeded, revision=metadata.response_header.revision)

    def _resolve(self, token: str, deadline: float) -> int | None:
        """The revision at which the token's transaction happened, or None if it never can.

        Raises OutcomeUnknownError if no member answers in time.
        """
        fences: set[str] = set()
        while time.monotonic() < deadline:
            member = self._members.pick()
            fence = uuid.uuid4().hex
            fences.add(fence)
            try:
                return self._fence_off(member, token, fence, fences)
            except (*_NO_ANSWER, grpc.RpcError):
                self._members.failed(member)
                time.sleep(_RETRY_S)
        raise OutcomeUnknownError("etcd does not tell whether a transaction happened")

    def _fence_off(
        self, member: EtcdMember, token: str, fence: str, fences: set[str]
    ) -> int | None:
        t = member.client().transactions
        seen = self._history.revision
        _, responses = member.client().transaction(
            compare=[t.mod(self._token_key) == self._token_revision],
            success=[t.put(self._token_key, fence), t.get(self._token_key)],
            failure=[t.get(self._token_key)],
        )
        if not responses[-1]:
            raise OutcomeUnknownError("the token of this controller was removed from etcd")
        value, metadata = responses[-1][0]
        self._history.check_key(metadata.mod_revision, self._token_revision)
        self._history.check(metadata.response_header, seen)
        self._token_revision = metadata.mod_revision
        if value == token.encode():
            revision = metadata.mod_revision
            assert isinstance(revision, int)
            return revision
        if value.decode() not in fences:
            raise OutcomeUnknownError("another process uses this controller's id")
        return None

    def _comparison(self, t: Any, compare: Compare) -> Any:
        key = self._namespace + compare.key
        if isinstance(compare, CreateRevisionIs):
            return t.create(key) == compare.revision
        return t.mod(key) == compare.revision

    def _request(self, t: Any, operation: Operation) -> Any:
        if isinstance(operation, Put):
            return t.put(self._namespace + operation.key, operation.value, operation.lease or None)
        if isinstance(operation, Delete):
            return t.delete(self._namespace + operation.key)
        start = (self._namespace + operation.prefix).encode()
        return t.delete(start, prefix_end(start))


def _nested(t: Any, requests: list[Any]) -> list[Any]:
    """Nests the requests so that each level stays within etcd's limit.

    etcd counts the operations of a transaction and, for a nested one, also those beside it: at most
    `--max-txn-ops` (128) together. All happen at one revision, or none does.
    """
    if len(requests) <= _FLAT_MAX:
        return requests
    groups = (requests[i : i + _INNER_MAX] for i in range(0, len(requests), _INNER_MAX))
    return [t.txn(compare=[], success=group, failure=[]) for group in groups]


def _ranged(member: EtcdMember, request: Any, timeout_s: float) -> Any:
    client = member.client()
    return client.kvstub.Range(request, timeout_s, metadata=client.metadata)


def _compact(member: EtcdMember, revision: int) -> None:
    try:
        member.client().compact(revision)
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.PERMISSION_DENIED:
            raise StoreUnavailableError("etcd does not let its user compact it") from error
        # Out of range: etcd is already compacted up to there, or further.
        if error.code() != grpc.StatusCode.OUT_OF_RANGE:
            raise


def _raise_if_refused(error: Exception) -> None:
    """Raises errors that say that etcd did nothing, and would do nothing in a retry."""
    code = error.code() if isinstance(error, grpc.RpcError) else None
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        raise StoreUnavailableError("etcd's database is full") from error
    if "auth" in str(error):
        # The token has expired; after another login the call can succeed.
        return
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED):
        raise error


def _explain(error: Exception) -> str:
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name} {error.details()}"
    return type(error).__name__
