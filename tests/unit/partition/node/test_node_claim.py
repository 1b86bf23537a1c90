"""One node per process; a killed node's data is reused; more processes are new nodes."""

import os
import subprocess
import sys
from itertools import islice

import pytest

from highwater.model.errors import UnwritableDirectoryError, UsageError
from highwater.partition.node import node_claim
from highwater.partition.node.node_claim import NodeClaim, candidates


def first(names, count=4):
    return list(islice(candidates(names), count))


def test_existing_nodes_come_first():
    assert first([]) == [1, 2, 3, 4]
    assert first(["node-2", "node-10", "node-1"]) == [1, 2, 10, 3]
    assert first(["node-3"]) == [3, 1, 2, 4]


def test_other_names_are_ignored():
    names = ["node-0", "node-01", "node-x", "node-2.lock", "xnode-3", "node-", "node--1", "meta"]
    assert first(names) == [1, 2, 3, 4]


def test_a_wanted_node_is_the_only_candidate():
    assert list(candidates(["node-1"], 7)) == [7]
    assert list(candidates([], 0)) == [0]


def test_ids_have_a_limit():
    assert len(list(candidates(["node-5", "node-7000"]))) == node_claim.NODES_MAX + 1


def test_each_process_claims_its_own_node_and_released_ones_are_claimed_again(tmp_path):
    root = tmp_path / "data"
    claims = [NodeClaim.take(root) for _ in range(3)]
    assert [claim.node_id for claim in claims] == [1, 2, 3]
    assert [claim.log_dir for claim in claims] == [root / f"node-{n}" for n in (1, 2, 3)]
    assert all(claim.log_dir.is_dir() for claim in claims)
    (root / "node-2" / "kept").write_text("data")
    claims[1].release()
    claims[1].release()
    again = NodeClaim.take(root)
    assert (again.node_id, (again.log_dir / "kept").read_text()) == (2, "data")
    assert NodeClaim.take(root).node_id == 4


def test_a_wanted_node(tmp_path):
    claim = NodeClaim.take(tmp_path, 5)
    assert claim.node_id == 5
    with pytest.raises(UsageError, match=r"node 5 of data root .* is in use"):
        NodeClaim.take(tmp_path, 5)


def test_no_node_left(tmp_path, monkeypatch):
    monkeypatch.setattr(node_claim, "NODES_MAX", 2)
    held = [NodeClaim.take(tmp_path) for _ in range(2)]
    with pytest.raises(UsageError, match="every node"):
        NodeClaim.take(tmp_path)
    assert len(held) == 2


@pytest.mark.parametrize("root", ["file", "file/below"])
def test_an_unusable_data_root(tmp_path, root):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableDirectoryError):
        NodeClaim.take(tmp_path / root)


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def no_locks(_fd, _how):
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(node_claim.fcntl, "flock", no_locks)
    with pytest.raises(UnwritableDirectoryError, match="not supported"):
        NodeClaim.take(tmp_path)


CLAIM = """
import sys
from pathlib import Path
from highwater.partition.node.node_claim import NodeClaim
claim = NodeClaim.take(Path(sys.argv[1]))
print(claim.node_id, flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_its_node_to_the_next(tmp_path):
    def start():
        return subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    processes = [start() for _ in range(3)]
    try:
        ids = [int(process.stdout.readline()) for process in processes]
        assert sorted(ids) == [1, 2, 3], "at the same time, each another"
        processes[0].kill()
        processes[0].wait(10)
        assert NodeClaim.take(tmp_path).node_id == ids[0]
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=10)
