"""A metadata store for several controllers, one after the other."""

from typing import Any

from highwater.controller.store.port import MetadataStore


class Lasting:
    """A store that stays open when a controller that used it closes it; cast it to MetadataStore."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def start(self) -> None:
        """Nothing to do: its owner has started it."""

    async def close(self) -> None:
        """Nothing to do: its owner closes it."""
