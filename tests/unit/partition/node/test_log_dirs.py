"""Sizes by directory, the answer for an offline or hanging directory, and wishes for replicas."""

import asyncio
import shutil
import threading

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.node.log_dirs import LogDirRequests, VolumeSpace, space_of
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode
from tests.support.log_batches import make_batch
from tests.support.still_replicas import StillReplicas
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import Node

ALL = pb.DescribeLogDirsRequest(instance="default", all_topics=True)
SPACE = VolumeSpace(total_bytes=100, usable_bytes=40)


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    made.add(0)
    made.add(1).log_dir = 1
    made.append(make_batch(value=b"x" * 100))
    return made


def never(topic_id, partition, index):
    raise AssertionError("nothing is to be remembered")


class Move:
    """A move to the second directory."""

    copied_bytes, lag = 17, 5

    class target:  # noqa: N801 - an attribute of moves.
        index = 1


class Moves:
    """Keeps what is asked."""

    def __init__(self):
        self.asked, self.under_way, self.short, self.begun = [], {}, True, {}

    def of(self, replica):
        return self.under_way.get(replica.partition)

    def can_move(self, _replica):
        return self.short

    def move(self, replica, index):
        self.asked.append((replica.partition, index))
        return self.begun.get(replica.partition)


def queries(
    node, tmp_path, *, offline=(), space=lambda _: SPACE, prefer=never, moves=None, **settings
):
    def replicas(instance):
        assert instance == "default"
        return node.plane.replicas.values()

    return LogDirRequests(
        [tmp_path / "a", tmp_path / "b"],
        replicas=replicas,
        is_online=lambda index: index not in offline,
        find=node.plane.replicas.get,
        prefer=prefer,
        moves=moves or StillReplicas(),
        space=space,
        **settings,
    )


async def altered(made, *changes):
    """The codes for (topic id, partition, path)."""
    request = pb.AlterLogDirsRequest(paths=[str(path) for *_, path in changes])
    for number, (topic_id, partition, _) in enumerate(changes):
        request.changes.add(topic_id=topic_id, partition=partition, path=number)
    return list((await made.alter(request)).error_codes)


def found(directory):
    return [(replica.topic_id, replica.partition) for replica in directory.replicas]


async def test_every_directory_has_its_replicas(node, tmp_path):
    a, b = (await queries(node, tmp_path).describe(ALL)).dirs
    assert (a.path, b.path) == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert (found(a), found(b)) == ([(TOPIC, 0)], [(TOPIC, 1)])
    on_disk = (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size
    assert (a.replicas[0].size_bytes, b.replicas[0].size_bytes) == (on_disk, 0)
    assert on_disk > 100
    assert (a.error_code, a.total_bytes, a.usable_bytes) == (0, 100, 40)


async def test_only_requested_replicas(node, tmp_path):
    request = pb.DescribeLogDirsRequest(instance="default")
    request.topics.add(topic_id=TOPIC, partitions=[1, 7])
    request.topics.add(topic_id=b"another", partitions=[0])
    a, b = (await queries(node, tmp_path).describe(request)).dirs
    assert (found(a), found(b)) == ([], [(TOPIC, 1)])
    nothing = await queries(node, tmp_path).describe(pb.DescribeLogDirsRequest(instance="default"))
    assert [found(directory) for directory in nothing.dirs] == [[], []]


async def test_a_directory_that_is_offline(node, tmp_path):
    a, b = (await queries(node, tmp_path, offline={1}).describe(ALL)).dirs
    assert (a.error_code, b.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert (found(b), b.total_bytes, b.usable_bytes) == ([], -1, -1)


async def test_a_volume_whose_space_is_unknown(node, tmp_path):
    def fails(_path):
        raise OSError("gone")

    answer = await queries(node, tmp_path, space=fails).describe(ALL)
    assert [one.error_code for one in answer.dirs] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_a_volume_that_hangs_is_asked_once(node, tmp_path):
    release, asked = threading.Event(), []

    def hangs(path):
        asked.append(path)
        assert release.wait(10)
        return SPACE

    made = queries(node, tmp_path, space=hangs, disk_timeout_s=0.05)
    try:
        for _ in range(3):
            a, _b = (await made.describe(ALL)).dirs
            assert (a.error_code, a.total_bytes, found(a)) == (0, -1, [(TOPIC, 0)])
        assert sorted(asked) == [str(tmp_path / "a"), str(tmp_path / "b")]
    finally:
        release.set()
    made._disk_timeout_s = 10
    a, _b = (await made.describe(ALL)).dirs
    assert a.total_bytes == 100


def test_space_is_the_volumes(tmp_path):
    space = space_of(str(tmp_path))
    assert space.total_bytes == shutil.disk_usage(tmp_path).total
    assert 0 < space.usable_bytes <= space.total_bytes


async def test_a_directory_is_remembered_only_for_a_replica_to_come(node, tmp_path):
    wishes, moves = [], Moves()
    made = queries(node, tmp_path, prefer=lambda *wish: wishes.append(wish), moves=moves)
    codes = await altered(
        made,
        (TOPIC, 7, tmp_path / "b"),
        (TOPIC, 1, tmp_path / "b"),
        (TOPIC, 0, tmp_path / "b"),
        (b"", 0, tmp_path / "b"),
        (TOPIC, 8, tmp_path / "no"),
    )
    assert codes == [
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LOG_DIR_NOT_FOUND,
    ]
    assert wishes == [(TOPIC, 7, 1)]
    assert moves.asked == [(1, 1), (0, 1)], "also to stay: that ends a move"


async def test_a_replica_that_moves_is_in_two_directories(node, tmp_path):
    moves = Moves()
    moves.under_way[0] = Move()
    a, b = (await queries(node, tmp_path, moves=moves).describe(ALL)).dirs
    assert (found(a), found(b)) == ([(TOPIC, 0)], [(TOPIC, 0), (TOPIC, 1)])
    assert [(one.is_future, one.offset_lag) for one in a.replicas] == [(False, 0)]
    future, other = b.replicas
    assert (future.is_future, future.offset_lag, future.size_bytes) == (True, 5, 17)
    assert not other.is_future


async def test_a_name_that_is_too_long_for_a_copy(node, tmp_path):
    moves = Moves()
    moves.short = False
    made = queries(node, tmp_path, moves=moves)
    assert await altered(made, (TOPIC, 0, tmp_path / "b")) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert moves.asked == []


async def test_the_answer_says_whether_a_restart_would_go_on_with_the_moves(node, tmp_path):
    node.add(2)
    moves = Moves()
    loop = asyncio.get_running_loop()
    moves.begun = {number: loop.create_future() for number in range(3)}
    made = queries(node, tmp_path, moves=moves, disk_timeout_s=0.3)
    loop.call_later(0.1, moves.begun[0].set_result, None)
    loop.call_later(0.1, moves.begun[1].set_result, OSError("full"))
    codes = await altered(made, *((TOPIC, number, tmp_path / "b") for number in range(3)))
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
    moves.begun[2].cancel()
    assert await altered(made, (TOPIC, 2, tmp_path / "b")) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_nothing_is_remembered_of_a_directory_that_is_offline(node, tmp_path):
    made = queries(node, tmp_path, offline={1})
    codes = await altered(made, (TOPIC, 7, tmp_path / "b"), (b"", 0, tmp_path / "b"))
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_a_failed_replica_is_a_storage_error_wherever_it_is_to_be(node, tmp_path):
    node.plane.replicas[TOPIC, 0].fail()
    codes = await altered(
        queries(node, tmp_path), (TOPIC, 0, tmp_path / "a"), (TOPIC, 0, tmp_path / "b")
    )
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


async def test_a_change_to_a_path_that_the_request_does_not_have(node, tmp_path):
    made = queries(node, tmp_path)
    change = pb.LogDirChange(topic_id=TOPIC, partition=0, path=1)
    with pytest.raises(RpcError) as refused:
        await made.alter(pb.AlterLogDirsRequest(changes=[change], paths=["/a"]))
    assert refused.value.code is StatusCode.INVALID_ARGUMENT
