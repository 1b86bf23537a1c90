"""Chooses the controller to call."""

import asyncio
import socket

import grpc.aio
import pytest

from highwater.metadata.endpoints import (
    FORMER_MAX,
    HINTED_ADDRESSES_MAX,
    ControllerEndpoints,
    GrpcEndpoint,
)
from highwater.rpc.inner import Inner
from tests.support.fake_controllers import FakeController, fake_cluster


async def test_rotation_moves_once_per_failure() -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1", "c:1")
    moves: list[str] = []
    endpoints.on_change(lambda: moves.append(endpoints.present))
    endpoints.rotate("a:1")
    endpoints.rotate("a:1")  # Another part of the service notices the same failure.
    assert (endpoints.present, moves) == ("b:1", ["b:1"])
    assert endpoints.current() is fakes["b:1"]
    endpoints.rotate("b:1")
    endpoints.rotate("c:1")
    assert endpoints.present == "a:1"


async def test_hints_of_the_active_controller() -> None:
    endpoints, _ = fake_cluster("a:1")
    endpoints.prefer("")
    endpoints.prefer("a:1")
    assert endpoints.addresses == ("a:1",)
    endpoints.prefer("new:1")
    assert (endpoints.present, endpoints.addresses) == ("new:1", ("a:1", "new:1"))
    for n in range(100):
        endpoints.prefer(f"n{n}:1")
    assert len(endpoints.addresses) == HINTED_ADDRESSES_MAX


async def test_a_controller_that_names_itself_is_not_left() -> None:
    endpoints, _ = fake_cluster("a:1", "b:1")
    endpoints.leave("a:1", "a:1")
    assert endpoints.present == "a:1"
    endpoints.leave("a:1", "")
    assert endpoints.present == "b:1"
    endpoints.leave("b:1", "a:1")
    assert endpoints.present == "a:1"


async def test_a_single_controller_is_never_left() -> None:
    endpoints, _ = fake_cluster("a:1")
    endpoints.rotate("a:1")
    assert endpoints.present == "a:1"


async def test_close_closes_all() -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1")
    endpoints.current()
    endpoints.rotate("a:1")
    endpoints.current()
    await endpoints.close()
    assert all(fake.closed for fake in fakes.values())


async def test_in_process() -> None:
    endpoints = ControllerEndpoints.in_process(object(), object())
    await endpoints.current().connect()
    endpoints.rotate(endpoints.present)
    assert endpoints.present == "in-process"
    await endpoints.close()


async def test_a_dead_controller_fails_at_once_and_is_used_again_after_its_restart() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    endpoint = GrpcEndpoint(f"127.0.0.1:{port}")
    server = grpc.aio.server()
    try:
        async with asyncio.timeout(2):
            with pytest.raises(TimeoutError, match="refuses connections"):
                await endpoint.connect()
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        async with asyncio.timeout(5):
            while True:
                try:
                    await endpoint.connect()
                    break
                except TimeoutError:
                    await asyncio.sleep(0.05)
    finally:
        await endpoint.close()
        await server.stop(None)


class Renewed(Inner):
    """Whose certificates have changed as often as the test says."""

    times = 0

    @property
    def generation(self) -> int:
        return self.times


async def test_changed_certificates_need_a_new_connection() -> None:
    made: list[FakeController] = []

    def connect(address: str) -> FakeController:
        made.append(FakeController(address))
        return made[-1]

    inner = Renewed()
    endpoints = ControllerEndpoints(["a:1"], inner=inner, connect=connect)
    assert endpoints.current() is endpoints.current() is made[0]
    for inner.times in range(1, FORMER_MAX + 2):
        assert endpoints.current() is made[-1]
        assert len(made) == inner.times + 1
    await asyncio.sleep(0)
    assert [one.closed for one in made] == [True] + [False] * (FORMER_MAX + 1), (
        "calls and watches go on"
    )
    await endpoints.close()
    assert all(one.closed for one in made)
