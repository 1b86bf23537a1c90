"""What the metadata store of a replicated cluster says, read by etcdctl."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

from highwater.controller.store import keys
from highwater.model.ids import NodeId
from tests.support.etcd import EtcdCluster

_PREFIX: Final = "/highwater/"


class Store:
    """Asks the first member of etcd that answers."""

    def __init__(self, etcd: Callable[[], EtcdCluster]) -> None:
        self._etcd = etcd

    def node_epoch(self, node_id: int) -> int:
        """The epoch of the last registration; 0 if there is none or the store does not answer."""
        entry = self._entry(keys.node_registration(NodeId(node_id)))
        return 0 if entry is None else entry["mod_revision"]

    def is_fenced(self, node_id: int) -> bool:
        """Also true while the store does not answer."""
        entry = self._entry(keys.node_state(NodeId(node_id)))
        return entry is None or bool(json.loads(entry["value"])["fenced"])

    def revision(self) -> int:
        """Of the last change."""
        told = self._etcd().members[0].ctl("get", _PREFIX, "--write-out=json")
        return int(json.loads(told.stdout)["header"]["revision"])

    def candidates(self) -> list[str]:
        """The addresses of the candidates in the election: the active controller, then the standbys."""
        entries = self._entries(keys.ELECTION, "--prefix")
        entries.sort(key=lambda entry: entry["create_revision"])
        return [json.loads(entry["value"])["address"] for entry in entries]

    def _entry(self, key: str) -> dict[str, Any] | None:
        entries = self._entries(key)
        return entries[0] if entries else None

    def _entries(self, key: str, *flags: str) -> list[dict[str, Any]]:
        """Empty if no member answers."""
        for member in self._etcd().members:
            if not member.running:
                continue
            told = member.ctl("get", _PREFIX + key, *flags, "--write-out=json", check=False)
            if told.returncode == 0:
                return [_decoded(entry) for entry in json.loads(told.stdout).get("kvs", [])]
        return []


def _decoded(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "value": base64.b64decode(entry["value"]).decode()}
