"""A cluster of processes on this host as one service: start, watch over, stop in order."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Final

from highwater.embed.supervisor.child import Child
from highwater.embed.supervisor.plan import ClusterPlan, make_plan
from highwater.embed.supervisor.readiness import serves_all_nodes, strange_port
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import UpOptions, inner_files
from highwater.embed.up.ports import check_ports
from highwater.model.errors import BindError, HighwaterError, PortInUseError, UsageError
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

READY_TIMEOUT_S: Final = 3600.0
"""Long, because nodes read their logs after a power cut, and would begin again if they were stopped.
The supervisor notices the death of a process at once."""

READY_TOLD_S: Final = 60.0
"""The time between two log lines that say that it still waits."""

READY_POLL_S: Final = 0.05

PORT_TRIES_MAX: Final = 5
"""Choices of free ports. One is lost if another process takes a port of it before ours has bound it."""

TAKEN_S: Final = 10.0
"""For how long a strange process has to have a port of ours until the start ends with that: one whose
gateway is slow to answer may be ours."""

TAKEN_LOOK_S: Final = 1.0

STOP_STAGE_S: Final = 6.0
"""For each kind of process; four of them stay below a container runtime's 30 s. A cluster has either
nodes with gateways, which get the time of both, or nodes and gateways."""

STOP_ORDER: Final = ("gateway", "broker", "partition", "quota", "controller")


class Supervisor:
    """All processes of one cluster. Implements the process's Service protocol."""

    def __init__(self, options: UpOptions, log: Logger) -> None:
        """Build it on the loop that runs it."""
        self._options = options
        self._log = log
        self._data_dir = DataDir(options.data_dir)
        self._children: dict[str, list[Child]] = {}
        self._tasks = TaskOwner(self._child_failed)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.addresses: Sequence[tuple[str, int]] = ()
        self.metrics_addresses: Mapping[str, str] = {}
        """host:port of /metrics by process; after `start`."""

    async def start(self) -> None:
        """Returns when clients can connect to every node. Raises UsageError, GaveUpError."""
        self._data_dir.acquire()
        self._data_dir.make_secret()
        for tries_left in reversed(range(PORT_TRIES_MAX)):
            plan = make_plan(self._options, self._data_dir)
            try:
                await self._start(plan)
                break
            except UsageError:
                if not tries_left:
                    raise
                await self._stop_children()
                if (lost := _first_taken(plan)) is None:
                    raise
                self._log.warning("free_port_lost", address=lost, tries_left=tries_left)
                self.failed = asyncio.get_running_loop().create_future()
        for child in self._all():
            child.settled = True

    async def _start(self, plan: ClusterPlan) -> None:
        self._children = {}
        self.addresses = plan.gateway_addresses
        self.metrics_addresses = plan.metrics_addresses
        self._data_dir.write_inner(inner_files(plan.inner))
        self._data_dir.write_controller_address(plan.controller_address)
        self._data_dir.write_metrics(plan.metrics_addresses)
        for spec in plan.processes:
            command = spec.command(self._options, parent=os.getpid())
            child = Child(spec.name, command, on_pid=self._write_pids, log=self._log)
            self._children.setdefault(spec.section, []).append(child)
            self._tasks.start(child.run(), name=spec.name)
        await self._wait_ready(plan)

    async def stop(self) -> None:
        """Stops gateways, nodes, quota service and controller, in this order."""
        await self._stop_children()
        await self._tasks.close(timeout_s=1)
        self._data_dir.release()

    async def _stop_children(self) -> None:
        for section in STOP_ORDER:
            children = self._children.get(section, [])
            timeout_s = STOP_STAGE_S * (2 if section == "broker" else 1)
            stops = (child.stop(timeout_s=timeout_s) for child in children)
            results = await asyncio.gather(*stops, return_exceptions=True)
            for child, error in zip(children, results, strict=True):
                if error is not None:  # A hanging disk may block one; still stop the others.
                    self._log.error("process_not_ended", process=child.name, error=repr(error))

    async def _wait_ready(self, plan: ClusterPlan) -> None:
        loop = asyncio.get_running_loop()
        started = told = loop.time()
        nodes = self._options.nodes
        for host, port in plan.gateway_addresses:
            own_s = looked_s = loop.time()  # When no port was a stranger's yet.
            while not await asyncio.to_thread(_is_ready, plan, host, port, nodes):
                if self.failed.done():
                    self.failed.result()
                now = loop.time()
                if now - started > READY_TIMEOUT_S:
                    raise HighwaterError(f"not ready after {READY_TIMEOUT_S:.0f} s")
                if now - told > READY_TOLD_S:
                    told = now
                    self._log.warning("not_ready_yet", seconds=round(now - started))
                if now - looked_s > TAKEN_LOOK_S:
                    looked_s = now
                    strange = await asyncio.to_thread(_strange_port, plan, host, port, nodes)
                    if strange is None:
                        own_s = now
                    elif now - own_s > TAKEN_S:
                        raise PortInUseError(f"{host}:{strange}")
                await asyncio.sleep(READY_POLL_S)

    def _all(self) -> list[Child]:
        return [child for children in self._children.values() for child in children]

    def _write_pids(self) -> None:
        pids = {child.name: child.pid for child in self._all() if child.pid is not None}
        try:
            self._data_dir.write_pids(pids)
        except OSError as error:
            # The file is only for tools. On a full disk a node dies; the others must go on.
            self._log.warning("pids_not_written", error=str(error))

    def _child_failed(self, name: str, error: BaseException) -> None:
        self._log.error("process_given_up", process=name, error=str(error))
        if not self.failed.done():
            self.failed.set_exception(error)


def _is_ready(plan: ClusterPlan, host: str, port: int, nodes: int) -> bool:
    """Whether clients can connect to every node, and reach this cluster by every port. Blocks."""
    if not serves_all_nodes(host, port, nodes):
        return False
    return _strange_port(plan, host, port, nodes) is None


def _strange_port(plan: ClusterPlan, host: str, port: int, nodes: int) -> int | None:
    return strange_port(host, port, nodes, shared=plan.shared_bootstrap)


def _first_taken(plan: ClusterPlan) -> str | None:
    """The first of the chosen ports that another process has; none of ours may run."""
    for host, port in sorted(plan.chosen):
        try:
            check_ports(host, port)
        except (PortInUseError, BindError) as error:
            return error.address
    return None
