"""Chooses and builds the metadata store's driver."""

from collections.abc import Sequence
from pathlib import Path

from highwater.controller.store.etcd_security import PLAIN, EtcdSecurity
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import MetadataStore
from highwater.controller.store.sqlite import SqliteStore


def memory_store() -> MetadataStore:
    """A store that ends with the process."""
    return MemoryStore()


def sqlite_store(data_dir: Path) -> MetadataStore:
    """A store in `data_dir`/metadata.sqlite."""
    return SqliteStore(data_dir / "metadata.sqlite")


def etcd_store(
    endpoints: Sequence[str],
    *,
    prefix: str,
    client_id: str,
    call_timeout_ms: int,
    security: EtcdSecurity = PLAIN,
) -> MetadataStore:
    """A store in an etcd cluster. Raises UsageError if a certificate's file cannot be read.

    Only this function imports the etcd client.
    """
    from highwater.controller.store.etcd import EtcdStore

    security.check_files()
    return EtcdStore(
        endpoints,
        prefix=prefix,
        client_id=client_id,
        call_timeout_ms=call_timeout_ms,
        security=security,
    )
