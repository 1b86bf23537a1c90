"""The features of the cluster, as ApiVersions tells them and UpdateFeatures changes them (KIP-584).

Each is finalized at one level in this version: nothing can be changed, so nothing is stored, and the
epoch stays the same.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # Consumer groups of the next generation (KIP-848).
        "group.version": 1,
        # 4.0-IV3 in Kafka's `MetadataVersion`. No client acts on it; tools show it.
        METADATA_VERSION: 25,
        # Producers that know it end each transaction with a higher epoch, and leaders add partitions
        # (KIP-890). What others send is served as at the levels below.
        TRANSACTION_VERSION: 2,
    }
)
"""By name, the finalized level, the highest that is supported; one of level 0 is known and not on."""

LOWEST: Final[Mapping[str, int]] = MappingProxyType({**LEVELS, TRANSACTION_VERSION: 0})
"""By name, the lowest level that is supported."""

EPOCH: Final = 0
"""The epoch of the finalized features. Clients take -1 for unknown, and larger ones for newer."""
