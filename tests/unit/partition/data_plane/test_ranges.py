"""A range names its place in a file, and keeps the file open until it is released."""

import os

from highwater.partition.data_plane.ranges import SegmentRange
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import Node, stored


def test_place_and_life(tmp_path):
    node = Node(tmp_path)
    replica = node.add()
    node.append(make_batch())
    node.append(make_batch())
    found = replica.log.reader.read(1, 1000, end_offset=2)
    held = SegmentRange(found, 3)
    path = tmp_path / held.path
    assert path.stat().st_ino == held.inode
    assert held.log_dir == 3
    half = len(stored(replica)) // 2
    assert (held.position, held.length) == (half, half)
    replica.log.close(clean=False)
    assert os.pread(held.fd, held.length, held.position) == path.read_bytes()[half:]
    held.release()
