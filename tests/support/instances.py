"""Puts instances into a running cluster, at its controller."""

from __future__ import annotations

from pathlib import Path

from highwater.embed.clients import instances
from highwater.embed.commands.quota import controller_address
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.instances import InstanceState


def set_instance(data_dir: Path, state: InstanceState) -> None:
    """Makes the instance, or changes it to that; `data_dir` is that of `highwater up`."""
    address = controller_address(None, data_dir)
    present = {one.state.instance for one in instances.read_instances(address)}
    if state.instance in {DEFAULT_INSTANCE, *present}:
        instances.change_instance(address, state.instance, lambda _: state)
    else:
        instances.create_instance(address, state)


def delete_instance(data_dir: Path, name: str) -> None:
    """Deletes it; it is purged after a minute."""
    instances.delete_instance(controller_address(None, data_dir), name, purge_after_ms=60_000)


def restore_instance(data_dir: Path, name: str) -> None:
    """Takes that back."""
    instances.restore_instance(controller_address(None, data_dir), name)
