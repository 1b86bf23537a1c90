"""Where logs part: the leader's answer, the follower's cut, and both in turns (KIP-101, 279)."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.partition.core.divergence import UNKNOWN_EPOCH, divergence, truncation_offset
from highwater.partition.core.leader_epochs import LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(entries)


def test_a_prefix_matches() -> None:
    epochs = cache((0, 0), (2, 10))
    for offset, last in ((0, -1), (5, 0), (10, 0), (15, 2), (20, 2)):
        assert divergence(epochs, 20, offset, last) is None


def test_what_does_not_match() -> None:
    epochs = cache((0, 0), (2, 10))
    assert divergence(epochs, 20, 12, 0) == (0, 10)
    assert divergence(epochs, 20, 12, 1) == (0, 10), "an epoch that nobody here wrote in"
    assert divergence(epochs, 20, 25, 2) == (2, 20)
    assert divergence(epochs, 20, 25, 3) == UNKNOWN_EPOCH
    assert divergence(cache(), 0, 5, -1) == UNKNOWN_EPOCH
    assert divergence(cache(), 0, 0, 4) == UNKNOWN_EPOCH


def test_where_to_cut() -> None:
    own = cache((0, 0), (1, 5), (3, 8))
    assert truncation_offset(own, 12, 1, 6) == 6
    assert truncation_offset(own, 12, 1, 20) == 8, "our epoch 1 ends earlier"
    assert truncation_offset(own, 12, 2, 20) == 8, "2 is unknown here; next round"
    assert truncation_offset(cache(), 12, 2, 7) == 7
    assert truncation_offset(own, 12, 0, 3) == 3


def _log(draw: st.DrawFn, common: list[int], epochs: list[int]) -> list[int]:
    """Epochs of the records of a log: a common beginning, then epochs of its own."""
    log = list(common)
    for epoch in epochs:
        if not log or epoch >= log[-1]:
            log += [epoch] * draw(st.integers(0, 3))
    return log


def _cache(log: list[int]) -> LeaderEpochCache:
    epochs = LeaderEpochCache()
    for offset, epoch in enumerate(log):
        epochs.assign(epoch, offset)
    return epochs


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Logs of a leader and a follower as elections make them: no epoch has two authors."""
    owners = draw(st.lists(st.booleans(), max_size=8))
    common = _log(draw, [], draw(st.lists(st.integers(0, 3), max_size=3).map(sorted)))
    first = (common[-1] if common else 0) + 1
    mine = [first + n for n, leader in enumerate(owners) if leader]
    other = [first + n for n, leader in enumerate(owners) if not leader]
    return _log(draw, common, mine), _log(draw, common, other)


@given(logs())
def test_rounds_end_at_the_longest_common_beginning(pair: tuple[list[int], list[int]]) -> None:
    leader, follower = pair
    common = 0
    while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
        common += 1
    theirs, ours = _cache(leader), _cache(follower)
    theirs.assign(100, len(leader))  # The leader's own epoch, which has no records yet.
    end = len(follower)
    for _ in range(len(follower) + 1):
        diverging = divergence(theirs, len(leader), end, ours.latest)
        if diverging is None:
            break
        assert diverging != UNKNOWN_EPOCH
        end = truncation_offset(ours, end, *diverging)
        ours.truncate_from_end(end)
    else:
        raise AssertionError("no end of rounds")
    assert end == common
