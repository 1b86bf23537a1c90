"""From a call to the shards of its keys, and to its answer once they have committed."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from highwater.hop.coordinator import BODY_BYTES_MAX, CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError, UnsupportedVersionError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.steps import Steps
from highwater.partition.coordinator.core.values import Moment, ResponseT
from highwater.partition.coordinator.hosts import ShardHosts
from highwater.partition.coordinator.kind import ShardT
from highwater.partition.coordinator.records import RecordT
from highwater.partition.coordinator.shard_host import ShardHost

T = TypeVar("T")

Handler = Callable[[ShardT, CoordinatorCall, Moment], bytes | None]
"""Handles a call about one key; None when the answer comes later, as one of the shard's replies."""

ShardOf = Callable[[str], ShardT | ErrorCode]
"""The shard of a key, or why it cannot be asked now."""

PartitionOf = Callable[[InstanceId, str], int]
"""Finds the topic's partition for a key of an instance."""


class ShardCalls(Generic[ShardT, RecordT, ResponseT]):
    """Passes the calls of one coordinator to handlers. Answers each call, and never raises."""

    def __init__(
        self,
        hosts: ShardHosts[ShardT, RecordT, ResponseT],
        *,
        partition_of: PartitionOf,
        of_default_instance: bool = True,
        admits_instance: Callable[[InstanceId], bool] | None = None,
    ) -> None:
        """Takes the calls of the default instance, or those of all other instances; of these only while
        `admits_instance` says so.
        """
        self._hosts = hosts
        self._by_partition = hosts.by_partition
        self._deliver = hosts.replies.deliver
        self._refuse = hosts.replies.refuse
        self._error_for = hosts.replies.error_for
        self._partition_of = partition_of
        self._of_default_instance = of_default_instance
        self._admits_instance = None if of_default_instance else admits_instance

    def admits(self, call: CoordinatorCall) -> bool:
        """Whether the call may be handled at all; otherwise it is answered here."""
        if (call.instance == DEFAULT_INSTANCE) is not self._of_default_instance:
            self._deliver(call, b"", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif self._admits_instance is not None and not self._admits_instance(call.instance):
            # Not created yet for this node, or purged.
            self._deliver(call, b"", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif len(call.body) > BODY_BYTES_MAX:
            self._deliver(call, b"", ErrorCode.INVALID_REQUEST)
        else:
            return True
        return False

    def at_once(
        self, call: CoordinatorCall, handle: Callable[[ShardT, CoordinatorCall, Moment], bytes]
    ) -> None:
        """A call about one key that writes nothing and tells of nothing that must be committed."""
        host = self._by_partition.get(call.partition)
        if host is None:
            self._refuse(call, ErrorCode.NOT_COORDINATOR)
            return
        shard = host.shard
        if isinstance(shard, ErrorCode):
            self._refuse(call, shard)
            return
        try:
            body = handle(shard, call, host.moment())
        except DecodeError as error:
            self._undecodable(call, error)
        except Exception as error:  # noqa: BLE001 - a bug costs the shard a reload, not the node.
            self._failed(call, error, hosts=[host])
        else:
            self._deliver(call, body, 0)

    def one_key(self, call: CoordinatorCall, handle: Handler[ShardT]) -> None:
        """A call about one key, answered after the commit of all that it tells of."""
        host = self._by_partition.get(call.partition)
        if host is None:
            self._refuse(call, ErrorCode.NOT_COORDINATOR)
            return
        shard = host.shard
        if isinstance(shard, ErrorCode):
            self._refuse(call, shard)
            return
        refused = host.refusal(writes=True)
        if refused is not ErrorCode.NONE:
            self._deliver(call, b"", refused)
            return
        try:
            now = host.moment()
            body = handle(shard, call, now)
            host.settle(now)
        except DecodeError as error:
            self._undecodable(call, error)
            return
        except Exception as error:  # noqa: BLE001 - as in `at_once`.
            self._failed(call, error, hosts=[host])
            return
        if body is None:
            host.park(call)
        else:
            host.after_commit(partial(self._deliver, call, body), now.now_ms)

    def many_keys(
        self,
        call: CoordinatorCall,
        handle: Callable[[CoordinatorCall, ShardOf[ShardT]], bytes | ErrorCode],
        *,
        writes: bool,
    ) -> None:
        """A call that names several keys, answered after all their shards have committed.

        With a partition, all keys are of that one; without (-1), each has its own.
        """
        touched: dict[ShardHost[ShardT, RecordT, ResponseT], None] = {}

        def shard_of(key: str) -> ShardT | ErrorCode:
            number = call.partition
            if number < 0:
                number = self._partition_of(call.instance, key)
            host = self._by_partition.get(number)
            if host is None:
                return ErrorCode.NOT_COORDINATOR
            refused = host.refusal(writes=writes)
            if refused is not ErrorCode.NONE:
                return ErrorCode(self._error_for(call.api_key, refused))
            shard = host.shard
            if not isinstance(shard, ErrorCode):
                touched[host] = None
            return shard

        if call.partition >= 0:
            shard = shard_of("")
            if isinstance(shard, ErrorCode):
                self._refuse(call, shard)
                return
        try:
            body = handle(call, shard_of)
            for host in touched:
                host.settle()
        except DecodeError as error:
            self._undecodable(call, error)
            return
        except Exception as error:  # noqa: BLE001 - as in `at_once`.
            self._failed(call, error, hosts=list(touched))
            return
        if isinstance(body, ErrorCode):
            self._refuse(call, body)
        else:
            tell = partial(self._deliver, call, body)
            _after_all(tell, [host.after_commit for host in touched])

    def in_process(
        self,
        instance: InstanceId,
        key: str,
        name: str,
        decide: Callable[[ShardT, Moment], T],
        done: Callable[[int, T | None], None],
    ) -> None:
        """A question of this node about one key, which may write: no request that has to be coded.

        `done` is called once, with 0 and what was decided when all that it tells of is committed, or
        with Kafka's error code. `name` is for the log.
        """
        if self._admits_instance is not None and not self._admits_instance(instance):
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
            return
        host = self._by_partition.get(self._partition_of(instance, key))
        if host is None:
            done(ErrorCode.NOT_COORDINATOR, None)
            return
        refused = host.refusal(writes=True)
        shard = host.shard
        if refused is not ErrorCode.NONE or isinstance(shard, ErrorCode):
            done(shard if isinstance(shard, ErrorCode) else refused, None)
            return
        try:
            now = host.moment()
            found = decide(shard, now)
            host.settle(now)
        except Exception as error:  # noqa: BLE001 - as in `at_once`.
            host.crash(name, error)
            done(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            return
        host.after_commit(partial(_tell, done, found), now.now_ms)

    def all_shards(
        self, call: CoordinatorCall, handle: Callable[[Iterator[ShardT], CoordinatorCall], bytes]
    ) -> None:
        """A call that names no key and asks every shard that serves; it writes nothing."""
        try:
            body = handle(self._hosts.shards(), call)
        except DecodeError as error:
            self._undecodable(call, error)
        except Exception as error:  # noqa: BLE001 - as in `at_once`; no shard has changed.
            self._failed(call, error, hosts=[])
        else:
            self._deliver(call, body, 0)

    def all_shards_in_steps(
        self,
        call: CoordinatorCall,
        handle: Callable[[Iterator[ShardT], CoordinatorCall], Steps[bytes]],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """As `all_shards`, where the answer may take longer than the loop may stop. The shards are given
        for the first step only; each further one runs in a turn of its own, until the client is gone.
        """

        def steps() -> Steps[bytes]:
            return (yield from handle(self._hosts.shards(), call))

        self._step(call, steps(), call_soon)

    def _step(
        self,
        call: CoordinatorCall,
        steps: Steps[bytes],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        if call.cancelled:
            return
        try:
            next(steps)
        except StopIteration as stop:
            body: bytes = stop.value
            self._deliver(call, body, 0)
        except DecodeError as error:
            self._undecodable(call, error)
        except Exception as error:  # noqa: BLE001 - as in `all_shards`.
            self._failed(call, error, hosts=[])
        else:
            call_soon(partial(self._step, call, steps, call_soon))

    def _undecodable(self, call: CoordinatorCall, error: DecodeError) -> None:
        """Answer bytes that do not decode with an error; they have changed nothing."""
        unsupported = isinstance(error, UnsupportedVersionError)
        code = ErrorCode.UNSUPPORTED_VERSION if unsupported else ErrorCode.INVALID_REQUEST
        self._deliver(call, b"", code)

    def _failed(
        self,
        call: CoordinatorCall,
        error: Exception,
        *,
        hosts: list[ShardHost[ShardT, RecordT, ResponseT]],
    ) -> None:
        """A handler has a bug: load the shards again whose state it may have changed."""
        during = f"api {call.api_key}"
        if not hosts:
            self._hosts.logger.error(
                self._hosts.event("call_failed"), during=during, exc_info=error
            )
        for host in hosts:
            host.crash(during, error)
        self._deliver(call, b"", ErrorCode.UNKNOWN_SERVER_ERROR)


def _tell(done: Callable[[int, T | None], None], found: T, error: int) -> None:
    done(error, None if error else found)


def _after_all(
    tell: Callable[[int], None], after_commits: list[Callable[[Callable[[int], None]], None]]
) -> None:
    """`tell(0)` once every shard has committed, at once if there is none, or `tell(error)`."""
    left = len(after_commits)

    def one(error: int) -> None:
        nonlocal left
        left -= 1
        if error or left == 0:
            tell(error)

    if not after_commits:
        tell(0)
    for after_commit in after_commits:
        after_commit(one)
