"""What nodes say of their disks, and for how long they are avoided."""

from highwater.controller.core.full_replicas import FullReplicas, nobody
from highwater.model.ids import NodeId, TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
ONE, TWO = NodeId(1), NodeId(2)
PAUSE_MS = 1_000


def told(**topics):
    return {{"a": A, "b": B}[name]: frozenset(numbers) for name, numbers in topics.items()}


def test_nobody_is_avoided_who_has_said_nothing():
    full = FullReplicas()
    full.note(ONE, {}, now_ms=0)
    assert full.avoided(A, 0, now_ms=0) == nobody(A, 0) == frozenset()
    assert full.told == {}


def test_the_newest_list_counts_and_only_for_its_partitions():
    full = FullReplicas(pause_ms=0)
    full.note(ONE, told(a=[0, 1], b=[0]), now_ms=0)
    full.note(TWO, told(a=[1]), now_ms=0)
    assert full.avoided(A, 0, now_ms=0) == {ONE}
    assert full.avoided(A, 1, now_ms=0) == {ONE, TWO}
    assert full.avoided(B, 1, now_ms=0) == set()
    full.note(ONE, told(b=[0, 1]), now_ms=1)
    assert full.avoided(A, 1, now_ms=1) == {TWO}
    assert full.avoided(B, 1, now_ms=1) == {ONE}
    assert full.told == {ONE: told(b=[0, 1]), TWO: told(a=[1])}


def test_a_replica_with_space_again_is_avoided_for_a_pause():
    full = FullReplicas(pause_ms=PAUSE_MS)
    full.note(ONE, told(a=[0, 1]), now_ms=0)
    full.note(ONE, told(a=[1]), now_ms=100)
    assert full.told == {ONE: told(a=[1])}, "its leader stays"
    assert full.avoided(A, 0, now_ms=100 + PAUSE_MS - 1) == {ONE}
    assert full.avoided(A, 0, now_ms=100 + PAUSE_MS) == set()
    full.note(ONE, {}, now_ms=200)
    assert full.avoided(A, 1, now_ms=200 + PAUSE_MS - 1) == {ONE}
    assert full.avoided(A, 1, now_ms=200 + PAUSE_MS) == set()


def test_a_disk_that_comes_and_goes_is_avoided_all_the_time():
    full = FullReplicas(pause_ms=PAUSE_MS)
    for second in range(10):
        full.note(ONE, told(a=[0]) if second % 2 else {}, now_ms=second * PAUSE_MS // 2)
        assert second == 0 or full.avoided(A, 0, now_ms=second * PAUSE_MS // 2) == {ONE}


def test_heartbeats_forget_what_is_over_and_nodes_that_have_gone():
    full = FullReplicas(pause_ms=PAUSE_MS)
    for node in (ONE, TWO):
        full.note(node, told(a=[0]), now_ms=0)
    full.note(ONE, {}, now_ms=0)
    full.note(ONE, {}, now_ms=PAUSE_MS)
    assert full.avoided(A, 0, now_ms=0) == {TWO}
    full.keep({ONE})
    assert full.avoided(A, 0, now_ms=0) == set()
