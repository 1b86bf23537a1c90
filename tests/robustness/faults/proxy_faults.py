"""Connections that are slow and break at any byte, by a proxy in user space."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.replicated import in_form
from tests.robustness.faults.fault import SESSION_S, Fault, Scene
from tests.support.faulty_proxy import FaultyProxy
from tests.support.process import free_port_block
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

_NODES = 3
_REAL, _PROXIED = "127.0.0.1", "127.0.0.2"
"""Services listen on the first address, and advertise the same ports of the second, the proxy's."""
_CUTS_MIN = 5
_DELAYS_MIN = 20


@dataclass
class BrokenConnections(Fault):
    """Pieces of requests and replies are up to 100 ms late, and connections end within frames.

    `who` uses the proxy: the "clients" of the gateway, or the "nodes", so that it is between them and
    gateways as well as between followers and leaders.
    """

    who: str
    seconds: float = 20.0

    id = "F36-proxy"
    title = "connections that are slow and break"
    pause_s_max = SESSION_S

    def __post_init__(self) -> None:
        self._proxy: FaultyProxy | None = None

    def probe(self) -> str | None:
        try:
            with socket.socket() as tried:
                tried.bind((_PROXIED, 0))
        except OSError as error:
            return f"no address {_PROXIED}: {error}"
        return None

    def prepare(self, directory: Path) -> Mapping[int, Path]:
        if self.who == "clients":
            shape = Shape(settings={"gateway": {"advertised_host": _PROXIED}})
            self.shape = in_form(shape, self.form)
            return {}
        first = free_port_block(_NODES)
        ports = range(first, first + _NODES)
        shape = Shape(
            nodes=_NODES,
            settings={
                f"node-{node}": {
                    "port": str(port),
                    "advertised_address": f"{_PROXIED}:{port}",
                    "hop.unix_sockets": "false",  # They would lead past the proxy.
                }
                for node, port in enumerate(ports, start=1)
            },
        )
        self.shape = in_form(shape, self.form)
        self._start(ports)
        return {}

    def started(self, cluster: ReplicatedCluster) -> None:
        if self.who == "clients":
            block = (
                cluster.ports.gateway_block(1)
                if cluster.gateway_ids
                else cluster.ports.shared_block()
            )
            self._start(block)

    def inject(self, scene: Scene) -> None:
        proxy = self._proxy
        assert proxy is not None
        proxy.disturb(scene.chance.getrandbits(32))
        until_s = time.monotonic() + self.seconds
        while time.monotonic() < until_s:
            scene.progress(timeout_s=30)
        scene.note(
            f"{proxy.connections} connections of {self.who}, {proxy.cuts} of them broken, "
            f"{proxy.delays} delays in {self.seconds:.0f} s"
        )
        assert proxy.cuts >= _CUTS_MIN, "or this has shown nothing"
        assert proxy.delays >= _DELAYS_MIN, "or this has shown nothing"

    def heal(self, scene: Scene) -> None:
        assert self._proxy is not None
        self._proxy.calm()

    def clean_up(self) -> None:
        if self._proxy is not None:
            self._proxy.stop()

    def _start(self, ports: range) -> None:
        proxy = FaultyProxy({(_PROXIED, port): (_REAL, port) for port in ports})
        with contextlib.ExitStack() as undo:
            undo.callback(proxy.stop)
            proxy.start()
            undo.pop_all()
        self._proxy = proxy
