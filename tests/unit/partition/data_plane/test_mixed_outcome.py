from highwater.hop.append import Failure
from highwater.partition.data_plane.mixed_outcome import MixedOutcome


def test_each_batch_has_its_own_outcome() -> None:
    appended = [7]
    outcome = MixedOutcome(appended)
    assert (outcome.base_offsets, outcome.failures) == ([7], None)
    refused = Failure(2)
    outcome.add(-1, refused)
    assert outcome.known_timestamps is None
    outcome.add(3, None, 1000)
    assert outcome.base_offsets == [7, -1, 3], "one that failed, one that was there before"
    assert outcome.failures == {1: refused}
    assert outcome.known_timestamps == {2: 1000}
    assert appended == [7]
