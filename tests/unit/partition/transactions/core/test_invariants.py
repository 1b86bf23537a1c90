import pytest

from highwater.partition.transactions.core.invariants import check, check_image
from highwater.partition.transactions.core.state import (
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
)
from tests.unit.partition.transactions.core.dialogue import T0, Dialogue, image, key


@pytest.mark.parametrize(
    "broken",
    [
        image(producer_id=-1),
        image(producer_epoch=-1),
        image(state=DEAD),
        image(state=ONGOING),
        image(state=ONGOING, partitions=frozenset({T0}), producer_epoch=32_767),
        image(state=COMPLETE_COMMIT, partitions=frozenset({T0})),
        image(state=COMPLETE_COMMIT, start_ms=-1),
        image(state=EMPTY, producer_epoch=32_767),
        image(state=EMPTY, next_producer_id=3),
    ],
)
def test_images_that_may_not_be_written(broken):
    with pytest.raises(AssertionError):
        check_image(broken)


def test_a_producer_id_has_one_transactional_id():
    check_image(image(state=PREPARE_ABORT, next_producer_id=3))
    d = Dialogue()
    d.put(image(), "a")
    check(d.shard)
    d.shard.images[key("b")] = image()
    with pytest.raises(AssertionError):
        check(d.shard)
