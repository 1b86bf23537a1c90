"""The head of the metadata: a key that every change writes, so its revision is the image's.

The store's own revision also moves with elections and with the tokens of the etcd driver. The
head's does not. So if the store was put back to an older state, the head stays behind what others
have seen, however many controllers have started since.
"""

from dataclasses import dataclass
from typing import Final

from highwater.controller.store import keys
from highwater.controller.store.port import Entry, MetadataStore, Put

HEAD: Final = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last change of the metadata."""

    revision: int
    """The key's revision; the store's own if no change, or only an earlier version, wrote one."""
    mod_revision: int = 0
    """The key's mod revision in compares; 0 if there is no key."""
    controller_epoch: int = 0
    """The epoch of the controller that wrote it."""
    raise_epochs: int = 0
    """By how much epochs have to grow before anything acts on them; see `store_past`."""


def put_head(*, controller_epoch: int, raise_epochs: int = 0) -> Put:
    """The operation that every change of the metadata includes."""
    fields = {"controller_epoch": controller_epoch}
    if raise_epochs:
        fields["raise_epochs"] = raise_epochs
    return Put(key=HEAD, value=keys.encode(fields))


def head_of(entry: Entry) -> Head:
    """The head from its entry. Raises UnknownFormatError."""
    fields = keys.decode(entry.key, entry.value)
    return Head(
        revision=entry.mod_revision,
        mod_revision=entry.mod_revision,
        controller_epoch=fields["controller_epoch"],
        raise_epochs=fields.get("raise_epochs", 0),
    )


async def read_head(store: MetadataStore) -> Head:
    """The head as the store has it now. Raises StoreUnavailableError, StoreWentBackError."""
    snapshot = await store.range(HEAD)
    found = [entry for entry in snapshot.entries if entry.key == HEAD]
    return head_of(found[0]) if found else Head(revision=snapshot.revision)
