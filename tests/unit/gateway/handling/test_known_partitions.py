import pytest

from highwater.gateway.handling.known_partitions import split_partitions
from highwater.kafka.messages.offset_delete import OffsetDeleteRequestOffsetDeleteRequestPartition
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import image_of, topic


@pytest.mark.parametrize(
    ("name", "known", "unknown"),
    [("access_log", [0, 1], [-1, 2]), ("no_such_topic", [], [0, -1, 1, 2])],
)
def test_partitions_are_split_in_their_order(name, known, unknown):
    context = Client(FakeBackend(image_of(topic("access_log", (1, 2))))).context(47, 0)
    partitions = [OffsetDeleteRequestOffsetDeleteRequestPartition(n) for n in (0, -1, 1, 2)]
    *found, _ = split_partitions(context, name, partitions, frozenset())
    assert [[one.partition_index for one in part] for part in found] == [known, unknown]
