from highwater.partition.core.sequences import NO_SEQUENCE, SEQUENCE_MAX, is_before, last_sequence


def test_sequences_go_on_at_zero() -> None:
    assert last_sequence(5, 0) == 5
    assert last_sequence(SEQUENCE_MAX, 2) == 1
    assert last_sequence(NO_SEQUENCE, 2) == NO_SEQUENCE


def test_what_comes_before() -> None:
    assert is_before(4, 5)
    assert not is_before(5, 5)
    assert not is_before(6, 5)
    assert is_before(SEQUENCE_MAX, 0)
    assert not is_before(0, SEQUENCE_MAX)
