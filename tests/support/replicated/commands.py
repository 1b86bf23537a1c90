"""The command lines of a replicated cluster's processes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.replicated.hosts import LOOPBACK, Loopback, NodeHosts, gateway_host
from tests.support.replicated.ports import Ports
from tests.support.replicated.shape import Shape

_HIGHWATER: Final = (sys.executable, "-m", "highwater.embed")


class Commands:
    """What starts each process. All of them end with the process that these are made in (`--parent`)."""

    def __init__(
        self, shape: Shape, hosts: NodeHosts, ports: Ports, etcd_endpoints: Sequence[str]
    ) -> None:
        self._shape = shape
        self._hosts = hosts
        self._ports = ports
        self._etcd_endpoints = etcd_endpoints

    def node(self, node_id: int, data_dir: Path, *, port: int = 0) -> list[str]:
        """A node with its logs in a directory; another port is for a second process with its id."""
        host, name = self._hosts.address(node_id), f"node-{node_id}"
        settings = {
            "host": host,
            "port": str(port or self._ports.nodes[node_id]),
            "node_id": str(node_id),
            "rack": f"rack-{node_id}",
            "log_dirs": json.dumps([str(data_dir)]),
            "controllers": self._controller_addresses(),
            "quota_address": "",
            "group_initial_rebalance_delay_ms": "0",
            "group_consumer_assignment_interval_ms": "0",
        }
        if node_id > self._shape.combined:
            return self._hosts.command(node_id, self._command("partition", name, settings))
        given = self._shape.settings
        hop = self._hop_settings()
        merged = {
            "partition": {**settings, **hop, **given.get("partition", {}), **given.get(name, {})},
            "gateway": {
                **self._gateway_settings(name, self._ports.shared),
                **hop,
                "rack": f"rack-{node_id}",
                **given.get("gateway", {}),
            },
        }
        if self._shape.controllers_in_nodes and node_id in self._ports.controllers:
            own, others = self._controller_settings(node_id), given.get("controller", {})
            merged["controller"] = {**own, **others}
            merged["broker"] = {"roles": json.dumps(["gateway", "partition", "controller"])}
        words = [*_HIGHWATER, "broker", "--parent", str(os.getpid())]
        for section, values in merged.items():
            for key, value in values.items():
                words += ["--set", f"{section}.{key}={value}"]
        return self._hosts.command(node_id, words)

    def controller(self, number: int) -> list[str]:
        """A controller without a node."""
        settings = self._controller_settings(number)
        return self._command("controller", f"controller-{number}", settings)

    def _controller_settings(self, number: int) -> dict[str, str]:
        return {
            "host": self._hosts.outside,
            "port": str(self._ports.controllers[number]),
            "controller_id": f"controller-{number}",
            "store": "etcd",
            "etcd.endpoints": json.dumps(self._etcd_endpoints),
            "internal_replication_factor": str(min(3, self._shape.nodes)),
        }

    def gateway(self, name: str, port: int) -> list[str]:
        """A gateway without a node."""
        settings = self._gateway_settings(name, port)
        return self._command("gateway", name, {**settings, "gateway_id": name})

    def _gateway_settings(self, name: str, port: int) -> dict[str, str]:
        settings = {
            "host": gateway_host(name, self._shape, self._hosts),
            "port": str(port),
            "controllers": self._controller_addresses(),
            "auto_create_topics": "false",
        }
        if self._shape.balancer:
            settings |= {
                "advertised_host": LOOPBACK,
                "proxy_protocol": "true",
                "proxy_networks": f'["{LOOPBACK}"]',
            }
        return settings

    def balancer(self) -> list[str]:
        """In front of all gateways."""
        names = [f"gateway-{n}" for n in self._ports.gateways]
        names += [f"node-{n}" for n in range(1, self._shape.combined + 1)]
        settings = {
            "host": LOOPBACK,
            "port": str(self._ports.shared),
            "ports": str(self._shape.nodes + 1),
            "gateways": json.dumps(
                [gateway_host(name, self._shape, self._hosts) for name in names]
            ),
            "check_s": "0.2",
        }
        return self._command("balancer", "balancer", settings)

    def _controller_addresses(self) -> str:
        outside = self._hosts.outside
        return json.dumps([f"{outside}:{port}" for port in self._ports.controllers.values()])

    def _command(self, section: str, name: str, settings: Mapping[str, str]) -> list[str]:
        given = self._shape.settings
        if section in ("gateway", "partition"):
            settings = {**settings, **self._hop_settings()}
        merged = {**settings, **given.get(section, {}), **given.get(name, {})}
        words = [*_HIGHWATER, section, "--parent", str(os.getpid())]
        for key, value in merged.items():
            words += ["--set", f"{key}={value}"]
        return words

    def _hop_settings(self) -> dict[str, str]:
        # Sockets in the file system would lead past networks that a test cuts.
        one_host = isinstance(self._hosts, Loopback)
        return {"hop.transport": self._shape.hop, "hop.unix_sockets": str(one_host).lower()}
