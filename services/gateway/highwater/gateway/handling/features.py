"""The features of the cluster, as ApiVersions tells them and UpdateFeatures changes them (KIP-584).

Each has exactly one level in this version, which is therefore both all that is supported and what is
finalized: nothing can be changed, so nothing is stored, and the epoch stays the same.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

METADATA_VERSION: Final = "metadata.version"

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # Consumer groups of the next generation (KIP-848).
        "group.version": 1,
        # 4.0-IV3 in Kafka's `MetadataVersion`. No client acts on it; tools show it.
        METADATA_VERSION: 25,
        # No transactions of the second version (KIP-890), which are level 2.
        "transaction.version": 0,
    }
)
"""By name, the only level; a feature of level 0 is known and not on."""

EPOCH: Final = 0
"""The epoch of the finalized features. Clients take -1 for unknown, and larger ones for newer."""
