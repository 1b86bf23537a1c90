"""ReadRange: which replicas may answer it, and their answers."""

from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.leader.range_reads import read_range
from highwater.partition.storage.errors import DamageFoundError, StorageError
from tests.support.log_batches import append, make_batch
from tests.unit.partition.data_plane.node import Node, stored
from tests.unit.partition.data_plane.roles import image_says
from tests.unit.partition.storage.scrubbing.test_scrub import flip

EPOCH = 4


@pytest.fixture
def replica(tmp_path: Path) -> PartitionReplica:
    """A follower in sync with six records, two to a batch."""
    made = Node(tmp_path).add(lead=False)
    for _ in range(3):
        append(made.log, make_batch(timestamps=(1, 2), value=b"v" * 50), epoch=1)
    made.log.roll()
    image_says(made, leader=2, epoch=EPOCH, replicas=(2, 1))
    return made


class Told(list[StorageError]):
    def __call__(self, replica: PartitionReplica, error: StorageError) -> bool:
        del replica
        self.append(error)
        return True


async def ask(
    replica: PartitionReplica | None,
    offset: int = 0,
    end_offset: int = 6,
    *,
    epoch: int = EPOCH,
    max_bytes: int = 1 << 20,
    told: Told | None = None,
    whole: bool = True,
) -> tuple[int, bytes]:
    return await read_range(
        replica,
        leader_epoch=epoch,
        offset=offset,
        end_offset=end_offset,
        max_bytes=max_bytes,
        damaged=Told() if told is None else told,
        whole=lambda _: whole,
    )


async def test_whole_batches_up_to_the_end(replica: PartitionReplica) -> None:
    everything = stored(replica)
    third = len(everything) // 3
    assert await ask(replica) == (0, everything)
    assert await ask(replica, 2, 4) == (0, everything[third : 2 * third])
    assert await ask(replica, 2, 6, max_bytes=1) == (0, everything[third : 2 * third])
    assert await ask(replica, 0, 0) == (0, b""), "it lives"


async def test_replicas_that_may_not_answer(replica: PartitionReplica) -> None:
    assert (await ask(None))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await ask(replica, epoch=EPOCH - 1))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert (await ask(replica, epoch=EPOCH + 1))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await ask(replica, 4, 7))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    image_says(replica, leader=2, epoch=EPOCH, replicas=(2, 1), isr=(2,))
    assert (await ask(replica))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.fail()
    assert (await ask(replica))[0] == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_range_damaged_here_too_is_refused_and_reported(replica: PartitionReplica) -> None:
    file = replica.log.extent.all[0].file
    third = replica.log.extent.all[0].size // 3
    flip(file, third + 100)
    told = Told()
    assert await ask(replica, 2, 4, told=told) == (ErrorCode.CORRUPT_MESSAGE, b"")
    (error,) = told
    assert isinstance(error, DamageFoundError)
    assert (error.first, error.end, error.position) == (2, 4, third)
    replica.log.lost.add(2, 4)
    assert (await ask(replica, 2, 4))[0] == ErrorCode.CORRUPT_MESSAGE
    assert (await ask(replica, 4, 6))[0] == 0


async def test_a_damaged_replica_gives_records_and_does_not_prove_that_it_is_whole(
    replica: PartitionReplica,
) -> None:
    """Whoever asks for nothing is about to step back; two would step back for each other."""
    assert (await ask(replica, 4, 6, whole=False))[0] == 0
    assert await ask(replica, 0, 0, whole=False) == (ErrorCode.CORRUPT_MESSAGE, b"")
    assert await ask(replica, 9, 9) == (0, b""), "what an empty range begins with says nothing"
    assert (await ask(replica, 0, 0, epoch=EPOCH + 1))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
