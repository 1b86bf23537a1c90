"""What must hold after every step of a shard; tests check it."""

from highwater.partition.transactions.core.image import (
    EPOCH_MAX,
    NO_PRODUCER_ID,
    TransactionImage,
    TransactionKey,
)
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.state import (
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_EPOCH_FENCE,
    PREPARED,
)


def check(shard: TransactionShard) -> None:
    """Raise AssertionError if an invariant is broken."""
    owners: dict[int, TransactionKey] = {}
    for key, image in shard.images.items():
        assert key.transactional_id
        check_image(image)
        other = owners.setdefault(image.producer_id, key)
        assert other == key, "two transactional ids share a producer id"
        left = shard.unmarked(key)
        assert left <= image.partitions


def check_image(image: TransactionImage) -> None:
    """Raise AssertionError if this may not be written."""
    assert image.producer_id != NO_PRODUCER_ID
    assert 0 <= image.producer_epoch <= EPOCH_MAX
    assert image.state not in (DEAD, PREPARE_EPOCH_FENCE), "a state that is never written"
    if image.state not in PREPARED:
        assert image.next_producer_id == NO_PRODUCER_ID
    if image.state is ONGOING:
        assert image.partitions, "a transaction is open without a partition"
        assert image.producer_epoch < EPOCH_MAX, "the largest epoch is kept for markers"
    elif image.state not in PREPARED:
        assert not image.partitions
    if image.state is EMPTY:
        assert image.producer_epoch < EPOCH_MAX
    else:
        assert image.start_ms >= 0
