"""The calls that do harm if they come late.

Their client may have given such a call up, because the network or this gateway stood still, and gone on by
another way. EndTxn, say, would then end the client's next transaction, and OffsetCommit take a group back.
With transaction.version 2 each transaction has an epoch of its own, which refuses what is late (KIP-890);
nothing in the older protocols does. A broker of Kafka's refuses what it does not coordinate itself.

So such a call goes only to the node whose port its client has chosen, and only once (`coordinators`); and
not at all if it may have waited while the process stood still (`core.standstill`).
"""

from typing import Final

from highwater.kafka.api_keys import ApiKey

NEVER_LATE: Final = frozenset(
    int(key)
    for key in (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
    )
)
"""Keys of these APIs. Member ids, generations and epochs make late calls of groups' members harmless."""
