"""Which calls are retried, and at which controller."""

import asyncio
import contextlib
from typing import Any

import grpc
import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.store.port import StoreUnavailableError
from highwater.metadata import controller_client
from highwater.metadata.controller_client import (
    CallOutcomeUnknownError,
    ControllerCallError,
    ControllerClient,
)
from highwater.metadata.status import REASON_KEY, InProcessRpcError
from highwater.model.errors import UnreachableError
from tests.support.fake_controllers import FakeController, fake_cluster, not_controller

ONCE = (
    "create_topics",
    "delete_topics",
    "create_partitions",
    "alter_partition",
    "alter_partition_reassignments",
    "remove_node",
    "alter_scram_users",
    "delete_acls",
    "create_instance",
    "delete_instance",
    "restore_instance",
)
REQUESTS: dict[str, Any] = {
    "register_node": pb.RegisterNodeRequest(),
    "register_gateway": pb.RegisterGatewayRequest(),
    "heartbeat": pb.HeartbeatRequest(),
    "create_topics": pb.CreateTopicsRequest(),
    "delete_topics": pb.DeleteTopicsRequest(),
    "create_partitions": pb.CreatePartitionsRequest(),
    "alter_configs": pb.AlterConfigsRequest(),
    "allocate_producer_ids": pb.AllocateProducerIdsRequest(),
    "alter_partition": pb.AlterPartitionRequest(),
    "alter_partition_reassignments": pb.AlterPartitionReassignmentsRequest(),
    "decommission_node": pb.DecommissionNodeRequest(),
    "remove_node": pb.RemoveNodeRequest(),
    "create_instance": pb.CreateInstanceRequest(),
    "set_instance": pb.SetInstanceRequest(),
    "delete_instance": pb.DeleteInstanceRequest(),
    "restore_instance": pb.RestoreInstanceRequest(),
    "alter_client_quotas": pb.AlterClientQuotasRequest(),
    "alter_scram_users": pb.AlterScramUsersRequest(),
    "describe_scram_users": pb.DescribeScramUsersRequest(),
    "create_acls": pb.CreateAclsRequest(),
    "delete_acls": pb.DeleteAclsRequest(),
    "describe_quorum": pb.DescribeQuorumRequest(),
}


def failing_first(error: Exception) -> Any:
    """An answer that raises once and then returns "done"."""
    errors = [error]

    def answer(_method: str, _request: Any) -> Any:
        if errors:
            raise errors.pop()
        return "done"

    return answer


async def call(client: ControllerClient, method: str, timeout_s: float = 5.0) -> Any:
    return await getattr(client, method)(REQUESTS[method], timeout_s=timeout_s)


@pytest.mark.parametrize("method", REQUESTS)
async def test_calls_reach_the_method_of_that_name(method: str) -> None:
    endpoints, fakes = fake_cluster("a:1")
    fakes["a:1"].answer = lambda _method, _request: "done"
    assert await call(ControllerClient(endpoints), method) == "done"
    ((called, request),) = fakes["a:1"].calls
    assert called.lower() == method.replace("_", "")
    assert request is REQUESTS[method]


@pytest.mark.parametrize("method", [method for method in REQUESTS if method != "alter_partition"])
async def test_any_call_that_a_standby_refused_is_sent_elsewhere(method: str) -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1", "c:1")
    fakes["a:1"].answer = failing_first(not_controller("c:1"))
    fakes["c:1"].answer = lambda _method, _request: "done"
    assert await call(ControllerClient(endpoints), method) == "done"
    assert fakes["b:1"].calls == []


async def test_isr_proposals_are_sent_once_and_the_next_goes_to_the_active_controller() -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1")
    fakes["a:1"].answer = failing_first(not_controller("b:1"))
    fakes["b:1"].answer = lambda _method, _request: "done"
    client = ControllerClient(endpoints)
    with pytest.raises(UnreachableError, match="not active"):
        await call(client, "alter_partition")
    assert fakes["b:1"].calls == []
    assert await call(client, "alter_partition") == "done"
    assert len(fakes["a:1"].calls) == len(fakes["b:1"].calls) == 1


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.CANCELLED]
)
@pytest.mark.parametrize("method", REQUESTS)
async def test_a_lost_call(method: str, code: grpc.StatusCode) -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1")
    fakes["a:1"].answer = failing_first(InProcessRpcError(code, "down", ()))
    fakes["b:1"].answer = lambda _method, _request: "done"
    client = ControllerClient(endpoints)
    if method in ONCE:
        with pytest.raises(CallOutcomeUnknownError):
            await call(client, method)
        assert fakes["b:1"].calls == [], "never sent twice"
    else:
        assert await call(client, method) == "done"


@pytest.mark.parametrize("method", ["create_topics", "heartbeat"])
async def test_an_elected_controller_is_not_left_before_it_serves(method: str) -> None:
    """It waits for a watch or a heartbeat, and those would leave it as well."""
    endpoints, fakes = fake_cluster("a:1", "b:1")
    moves: list[str] = []
    endpoints.on_change(lambda: moves.append(endpoints.present))
    fakes["a:1"].answer = failing_first(not_controller("a:1"))
    assert await call(ControllerClient(endpoints), method) == "done"
    assert moves == []


@pytest.mark.parametrize("method", ["create_topics", "heartbeat"])
async def test_a_controller_that_is_late_once_is_not_left(method: str) -> None:
    """The watch and the heartbeats would leave a slow but live controller."""
    endpoints, fakes = fake_cluster("a:1", "b:1")
    late = InProcessRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, "late", ())
    client = ControllerClient(endpoints)

    async def one_call() -> None:
        if method in ONCE and errors:
            with pytest.raises(CallOutcomeUnknownError):
                await call(client, method)
        else:
            assert await call(client, method) == "done"

    errors: list[Exception] = []

    def answer(_method: str, _request: Any) -> Any:
        if errors:
            raise errors.pop()
        return "done"

    fakes["a:1"].answer = answer
    fakes["b:1"].answer = lambda _method, _request: "done"
    for _ in range(2):
        errors.append(late)
        await one_call()
        await one_call()
        assert endpoints.present == "a:1", "an answer came between"
    errors += [late, late]
    await one_call()
    await one_call()
    assert endpoints.present == "b:1"


@pytest.mark.parametrize("method", ["create_topics", "heartbeat"])
async def test_calls_that_are_late_together_count_once(method: str) -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1")
    client = ControllerClient(endpoints)
    waiting: list[asyncio.Future[Any]] = []

    async def stalls(_method: str, _request: Any) -> Any:
        waiting.append(asyncio.get_running_loop().create_future())
        return await waiting[-1]

    async def one_call() -> None:
        with contextlib.suppress(CallOutcomeUnknownError):
            await call(client, method)

    fakes["a:1"].answer = stalls
    fakes["b:1"].answer = lambda _method, _request: "done"
    calls = [asyncio.create_task(one_call()) for _ in range(3)]
    async with asyncio.timeout(5):
        while len(waiting) < 3:
            await asyncio.sleep(0)
        late = InProcessRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, "late", ())
        for each in waiting:
            each.set_exception(late)
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert endpoints.present == "a:1"
        if method in ONCE:
            await asyncio.gather(*calls)
            calls = [asyncio.create_task(one_call())]
        while len(waiting) < 4:
            await asyncio.sleep(0.005)
        waiting[3].set_exception(late)
        while endpoints.present == "a:1":
            await asyncio.sleep(0.005)
        for each in waiting[4:]:
            each.set_result("done")
        await asyncio.gather(*calls)


@pytest.mark.parametrize("method", ["create_topics", "heartbeat"])
async def test_the_active_controller_is_not_left_while_it_waits_for_its_store(method: str) -> None:
    """Its watches and heartbeats would leave it as well."""
    endpoints, fakes = fake_cluster("a:1", "b:1")
    reason = ((REASON_KEY, StoreUnavailableError.reason),)
    fakes["a:1"].answer = failing_first(
        InProcessRpcError(grpc.StatusCode.UNAVAILABLE, "no etcd", reason)
    )
    client = ControllerClient(endpoints)
    if method in ONCE:
        with pytest.raises(CallOutcomeUnknownError):
            await call(client, method)
    else:
        assert await call(client, method) == "done"
    assert endpoints.present == "a:1"
    assert fakes["b:1"].calls == []


@pytest.mark.parametrize("method", ["create_topics", "heartbeat"])
async def test_an_unsent_call_is_sent_elsewhere(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_client, "ATTEMPT_TIMEOUT_S", 0.05)
    endpoints, fakes = fake_cluster("a:1", "b:1")
    fakes["a:1"].accepts = False
    fakes["b:1"].answer = lambda _method, _request: "done"
    assert await call(ControllerClient(endpoints), method) == "done"


async def test_no_server_answers() -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1")

    def standby(_method: str, _request: Any) -> Any:
        raise not_controller()

    for fake in fakes.values():
        fake.answer = standby
    with pytest.raises(UnreachableError, match="not active"):
        await call(ControllerClient(endpoints), "heartbeat", timeout_s=0.3)
    assert all(fake.calls for fake in fakes.values())


async def test_other_errors_are_raised_to_the_caller() -> None:
    endpoints, fakes = fake_cluster("a:1")
    fake: FakeController = fakes["a:1"]
    fake.answer = failing_first(InProcessRpcError(grpc.StatusCode.INTERNAL, "bug", ()))
    with pytest.raises(ControllerCallError) as raised:
        await call(ControllerClient(endpoints), "heartbeat")
    assert raised.value.code == grpc.StatusCode.INTERNAL
    assert len(fake.calls) == 1
