"""Whose records a node's directories hold without a gap: eligibility after a crash (KIP-966, R12).

A record of it is kept in every log directory, as small as {boot id, incarnations, clean}. A killed
process leaves the page cache to the next one, as long as the kernel is the same; an orderly end
leaves synced files to any kernel; a power cut, a failed write or another disk begins anew. What
the node sends at registration lets the controller see whether the incarnation that it knows is
among those whose records are all there.

Order of steps: `begin` and write the result to all directories before anything else is written to
them; register with the evidence; then `registered`. On a failed write `failed`, on an orderly end
`closed`, after the last sync. Directories whose records differ are `NOTHING`.
"""

from dataclasses import dataclass, replace
from typing import Final

INCARNATIONS_MAX: Final = 32
"""Starts without a registration that are remembered; older ones count as lost, which is safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a directory's record says."""

    boot_id: str
    """The kernel on which the newest incarnation wrote; empty if unknown."""
    incarnations: tuple[str, ...]
    """Oldest first."""
    clean: bool = False
    """The newest one closed all logs in order."""


NOTHING: Final = Lineage(boot_id="", incarnations=())
"""Of an empty, foreign or damaged directory."""


def begin(found: Lineage, *, boot_id: str, incarnation: str) -> tuple[tuple[str, ...], Lineage]:
    """(evidence for the registration, what to write before anything else)."""
    same_kernel = bool(boot_id) and boot_id == found.boot_id
    evidence = found.incarnations if found.clean or same_kernel else ()
    kept = (*evidence, incarnation)[-INCARNATIONS_MAX:]
    return evidence, Lineage(boot_id=boot_id, incarnations=kept)


def registered(present: Lineage, *, incarnation: str) -> Lineage:
    """The controller knows this incarnation; nobody will ask for earlier ones."""
    return replace(present, incarnations=(incarnation,) if present.incarnations else ())


def failed(present: Lineage) -> Lineage:
    """A write failed: the page cache no longer tells what the disk will hold."""
    return replace(present, incarnations=())


def closed(present: Lineage) -> Lineage:
    """Everything is synced and no more will be written."""
    return replace(present, clean=True)
