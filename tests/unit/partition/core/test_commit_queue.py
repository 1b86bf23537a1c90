from highwater.partition.core.commit_queue import CommitQueue


def test_in_order_of_offsets() -> None:
    queue: CommitQueue[str] = CommitQueue()
    queue.add(3, "a")
    queue.add(7, "b")
    queue.add(5, "a repeated batch")
    assert len(queue) == 3
    assert queue.reached(2) == []
    assert queue.reached(6) == ["a"]
    assert queue.reached(7) == ["b", "a repeated batch"]
    assert len(queue) == 0


def test_abandoned() -> None:
    queue: CommitQueue[str] = CommitQueue()
    queue.add(3, "a")
    queue.add(7, "b")
    assert queue.abandon() == ["a", "b"]
    assert queue.abandon() == []
