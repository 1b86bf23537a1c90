import pytest

from highwater.partition.core.leader_epochs import LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(entries)


def test_assign_keeps_epochs_and_starts_ascending() -> None:
    epochs = cache()
    assert epochs.latest == -1
    assert epochs.assign(0, 0)
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 20)
    assert not epochs.assign(1, 30)
    assert epochs.entries() == [(0, 0), (2, 10)]
    assert epochs.latest == 2


def test_an_epoch_without_records_is_replaced() -> None:
    epochs = cache((0, 0), (1, 10), (2, 10 + 5))
    assert epochs.assign(3, 15)
    assert epochs.entries() == [(0, 0), (1, 10), (3, 15)]
    assert epochs.assign(4, 5)
    assert epochs.entries() == [(0, 0), (4, 5)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),  # Before the first: itself, and where the first one starts.
        (1, (1, 5)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 100)),
        (8, (-1, -1)),
    ],
)
def test_end_offset_for(asked: int, answer: tuple[int, int]) -> None:
    assert cache((2, 5), (4, 20), (7, 30)).end_offset_for(asked, 100) == answer


def test_nothing_is_known_of_an_empty_log() -> None:
    assert cache().end_offset_for(0, 0) == (-1, -1)
    assert cache().epoch_for(3) == -1


def test_epoch_for_an_offset() -> None:
    epochs = cache((2, 5), (4, 20))
    assert [epochs.epoch_for(offset) for offset in (4, 5, 19, 20, 99)] == [-1, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("end", "left"),
    [(31, [(2, 5), (4, 20), (7, 30)]), (30, [(2, 5), (4, 20)]), (20, [(2, 5)]), (5, []), (0, [])],
)
def test_truncate_from_end(end: int, left: list[tuple[int, int]]) -> None:
    epochs = cache((2, 5), (4, 20), (7, 30))
    assert epochs.truncate_from_end(end) == (len(left) != 3)
    assert epochs.entries() == left
    assert epochs.latest == (left[-1][0] if left else -1)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(2, 5), (4, 20), (7, 30)]),
        (5, [(2, 5), (4, 20), (7, 30)]),
        (6, [(2, 6), (4, 20), (7, 30)]),
        (20, [(4, 20), (7, 30)]),
        (29, [(4, 29), (7, 30)]),
        (99, [(7, 99)]),
    ],
)
def test_truncate_from_start(start: int, left: list[tuple[int, int]]) -> None:
    epochs = cache((2, 5), (4, 20), (7, 30))
    assert epochs.truncate_from_start(start) == (left != [(2, 5), (4, 20), (7, 30)])
    assert epochs.entries() == left
    assert epochs.latest == 7


def test_clear() -> None:
    epochs = cache((2, 5))
    epochs.clear()
    assert len(epochs) == 0
    assert epochs.assign(0, 0)


@pytest.mark.parametrize(
    "entries",
    [[(1, 0), (1, 5)], [(2, 0), (1, 5)], [(1, 5), (2, 5)], [(1, 5), (2, 4)], [(-1, 0)], [(0, -1)]],
)
def test_entries_that_break_the_invariant_are_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError):
        LeaderEpochCache(entries)
