"""Chooses the driver by the configuration."""

from pathlib import Path

from highwater.controller.service import open_store
from highwater.controller.store.etcd import EtcdStore
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.sqlite import SqliteStore
from tests.support.controller import controller_config


def test_drivers(tmp_path: Path) -> None:
    assert type(open_store(controller_config())) is MemoryStore
    sqlite = open_store(controller_config(driver="sqlite", data_dir=tmp_path))
    assert isinstance(sqlite, SqliteStore)
    etcd = open_store(controller_config(driver="etcd"))
    assert isinstance(etcd, EtcdStore)
    assert (sqlite.exclusive, etcd.exclusive) == (True, False)
