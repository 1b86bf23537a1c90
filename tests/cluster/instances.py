"""Clusters on a loop in this process, with two instances beside the default one."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self, TypeVar

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.api.controller.v1.controller_service_pb2 import CreateInstanceRequest
from highwater.controller.service import ControllerService
from highwater.embed.combined.broker import CombinedBroker
from highwater.embed.combined.settings import load_combined
from highwater.embed.embedded.broker import EmbeddedBroker
from highwater.embed.embedded.run import broker_settings
from highwater.embed.up.options import UpOptions
from highwater.gateway.service import GatewayService
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import InstanceId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.logging import silent_logger
from tests.support.controller import controller_config
from tests.support.process import free_port_block, wait_until

T = TypeVar("T")

HOST = "127.0.0.1"
START_S = 60.0
SETTLED_S = 0.1
"""After that the end of a connection is known at the other side."""
INSTANCES = ("red", "blue")


class InstanceCluster:
    """One node with everything embedded, or two with their gateways beside a controller."""

    def __init__(
        self,
        directory: Path,
        nodes: int,
        *,
        gateway: Mapping[str, Any] | None = None,
        partition: Mapping[str, Any] | None = None,
    ) -> None:
        """`gateway` and `partition` are further settings of all gateways and nodes."""
        self._directory = directory
        self._nodes = nodes
        self._gateway_settings, self._partition_settings = gateway or {}, partition or {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stack = AsyncExitStack()
        self._gateway: GatewayService | None = None
        self._ports = {name: free_port_block(nodes + 1) for name in ("default", *INSTANCES)}

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    def bootstrap(self, instance: str = "default") -> str:
        """Where clients of an instance begin."""
        return f"{HOST}:{self._ports[instance]}"

    def topics_of(self, instance: InstanceId) -> list[TopicState]:
        """As the first node's gateway knows them."""
        return [topic for topic in self.image.topics.values() if topic.instance == instance]

    @property
    def image(self) -> ClusterImage:
        """As the first node's gateway knows it."""
        assert self._gateway is not None
        image = self._gateway.routing.image
        assert image is not None
        return image

    @property
    def node(self) -> int:
        """The id of one of the nodes."""
        return min(self.image.nodes)

    def start(self) -> None:
        """Returns when clients can connect."""
        self._run(self._start_embedded() if self._nodes == 1 else self._start_combined())
        self._run(self._make_instances())
        for name in INSTANCES:
            until(f"the ports of {name}", lambda name=name: self._listens(name))

    def stop(self) -> None:
        """In order; what is stored stays."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._run(stack.aclose())

    def functions_called(self, work: Callable[[], object]) -> frozenset[str]:
        """Runs `work` here; which functions of the product have begun on the cluster's loop meanwhile,
        and until the connections of `work` are closed.
        """
        called: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                called.add(frame.f_code)

        time.sleep(SETTLED_S)
        self._run(_profile(note))
        try:
            work()
            time.sleep(SETTLED_S)
        finally:
            self._run(_profile(None))
        return frozenset(
            f"{code.co_filename.partition('/highwater/')[2]}:{code.co_qualname}"
            for code in called
            if "/highwater/" in code.co_filename
        )

    def _listens(self, instance: str) -> bool:
        first = self._ports[instance]
        numbers = range(first, first + 1 if self._nodes == 1 else first + self._nodes + 1)
        try:
            for port in numbers:
                socket.create_connection((HOST, port), START_S).close()
        except ConnectionRefusedError:
            return False
        return True

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S)

    async def _make_instances(self) -> None:
        """Unless they are there, from before a restart."""
        assert self._gateway is not None
        for name in INSTANCES:
            block = pb.InstanceListener(listener=DEFAULT_LISTENER, port=self._ports[name])
            wanted = pb.InstanceState(instance=name, listeners=[block])
            answer = await self._gateway.controller.create_instance(
                CreateInstanceRequest(instance=wanted)
            )
            there = {ErrorCode.NONE, ErrorCode.DUPLICATE_RESOURCE}
            assert answer.error.error_code in there, answer.error

    async def _start_embedded(self) -> None:
        options = UpOptions(
            data_dir=self._directory,
            port=self._ports["default"],
            assignments=(
                *_assignments("gateway", self._gateway_settings),
                *_assignments("partition", self._partition_settings),
            ),
        )
        broker = EmbeddedBroker(broker_settings(options), silent_logger())
        self._stack.push_async_callback(broker.stop)
        await broker.start()
        self._gateway = broker.gateway

    async def _start_combined(self) -> None:
        config = controller_config(
            driver="sqlite", data_dir=self._directory / "controller", internal_replication_factor=1
        )
        controller = ControllerService(config)
        self._stack.push_async_callback(controller.stop)
        await controller.start()
        await controller.wait_active(START_S)
        brokers = [self._broker(node, controller.address) for node in range(1, self._nodes + 1)]
        for broker in brokers:
            self._stack.push_async_callback(broker.stop)
            await broker.start()
        self._gateway = brokers[0].gateway
        for broker in brokers:
            async with asyncio.timeout(START_S):
                while not self._knows_all(broker):
                    await asyncio.sleep(0.02)

    def _knows_all(self, broker: CombinedBroker) -> bool:
        assert broker.gateway is not None
        image = broker.gateway.routing.image
        nodes = () if image is None else image.nodes.values()
        return sum(not node.fenced for node in nodes) == self._nodes

    def _broker(self, node: int, controller: str) -> CombinedBroker:
        settings = {
            "broker": {"roles": ["gateway", "partition"], "controllers": [controller]},
            "gateway": {
                "host": HOST,
                "port": self._ports["default"],
                "drain_s": 0.2,
                **self._gateway_settings,
            },
            "partition": {
                "node_id": node,
                "port": 0,
                "log_dirs": [str(self._directory / f"node-{node}")],
                "quota_address": "",
                "group_initial_rebalance_delay_ms": 0,
                "group_consumer_assignment_interval_ms": 0,
                **self._partition_settings,
            },
        }
        return CombinedBroker(load_combined(None, settings), silent_logger())


def _assignments(section: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """As for `--set`."""
    for name, value in settings.items():
        yield f"{section}.{name}={value if isinstance(value, str) else json.dumps(value)}"


def until(what: str, holds: Any) -> None:
    """Waits until it does."""
    wait_until(holds, timeout_s=START_S, what=what)


async def _profile(note: Callable[[FrameType, str, object], None] | None) -> None:
    """Of the thread that this runs on."""
    sys.setprofile(note)
