from highwater.partition.storage.directory.deletion import DeletionQueue


def test_paths_come_out_when_they_are_due_oldest_first() -> None:
    queue = DeletionQueue()
    queue.add(["late"], 300)
    queue.add(["a", "b"], 100)
    queue.add(["c"], 100)
    assert queue.take_due(99, 10) == []
    assert queue.take_due(100, 2) == ["a", "b"]
    assert queue.take_due(100, 2) == ["c"]
    assert len(queue) == 1
    assert queue.take_due(1000, 10) == ["late"]
    assert len(queue) == 0
