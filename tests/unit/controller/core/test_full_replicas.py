"""What nodes say of their disks, and for how long they are avoided."""

from highwater.controller.core.full_replicas import FullReplicas, nobody
from highwater.model.ids import NodeId, TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
ONE, TWO = NodeId(1), NodeId(2)
PAUSE_MS = 1_000


class Full(FullReplicas):
    """With a clock that the test sets."""

    def __init__(self, **fields):
        self.now_ms = 0
        super().__init__(lambda: self.now_ms, **fields)

    def at(self, now_ms):
        self.now_ms = now_ms
        return self


def told(**topics):
    return {{"a": A, "b": B}[name]: frozenset(numbers) for name, numbers in topics.items()}


def test_nobody_is_avoided_who_has_said_nothing():
    full = Full()
    full.at(0).note(ONE, {})
    assert full.at(0).avoided(A, 0) == nobody(A, 0) == frozenset()
    assert full.told == {}


def test_the_newest_list_counts_and_only_for_its_partitions():
    full = Full(pause_ms=0)
    full.at(0).note(ONE, told(a=[0, 1], b=[0]))
    full.at(0).note(TWO, told(a=[1]))
    assert full.at(0).avoided(A, 0) == {ONE}
    assert full.at(0).avoided(A, 1) == {ONE, TWO}
    assert full.at(0).avoided(B, 1) == set()
    full.at(1).note(ONE, told(b=[0, 1]))
    assert full.at(1).avoided(A, 1) == {TWO}
    assert full.at(1).avoided(B, 1) == {ONE}
    assert full.told == {ONE: told(b=[0, 1]), TWO: told(a=[1])}


def test_a_replica_with_space_again_is_avoided_for_a_pause():
    full = Full(pause_ms=PAUSE_MS)
    full.at(0).note(ONE, told(a=[0, 1]))
    full.at(100).note(ONE, told(a=[1]))
    assert full.told == {ONE: told(a=[1])}, "its leader stays"
    assert full.at(100 + PAUSE_MS - 1).avoided(A, 0) == {ONE}
    assert full.at(100 + PAUSE_MS).avoided(A, 0) == set()
    full.at(200).note(ONE, {})
    assert full.at(200 + PAUSE_MS - 1).avoided(A, 1) == {ONE}
    assert full.at(200 + PAUSE_MS).avoided(A, 1) == set()


def test_a_disk_that_comes_and_goes_is_avoided_all_the_time():
    full = Full(pause_ms=PAUSE_MS)
    for second in range(10):
        full.at(second * PAUSE_MS // 2).note(ONE, told(a=[0]) if second % 2 else {})
        assert second == 0 or full.at(second * PAUSE_MS // 2).avoided(A, 0) == {ONE}


def test_heartbeats_forget_what_is_over_and_nodes_that_have_gone():
    full = Full(pause_ms=PAUSE_MS)
    for node in (ONE, TWO):
        full.at(0).note(node, told(a=[0]))
    full.at(0).note(ONE, {})
    full.at(PAUSE_MS).note(ONE, {})
    assert full.at(0).avoided(A, 0) == {TWO}
    full.keep({ONE})
    assert full.at(0).avoided(A, 0) == set()
