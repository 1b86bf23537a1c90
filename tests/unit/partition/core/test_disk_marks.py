import pytest

from highwater.partition.core.disk_marks import DiskMark, DiskState, next_state

OPEN, NO_CLIENTS, NOTHING = DiskState
MARK = 1_000


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("0", 0), ("700", 700), ("128MiB", 128 << 20), ("1 GiB", 1 << 30), ("2.5%", 2_500)],
)
def test_marks_are_bytes_or_a_part(text, nbytes):
    assert DiskMark.parse(text).of(100_000) == nbytes


@pytest.mark.parametrize("text", ["", "-1", "100%", "x%", "1.5MiB", "10MB"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"expected|convert"):
        DiskMark.parse(text)


@pytest.mark.parametrize(
    ("before", "free", "after"),
    [
        (OPEN, 1_000, OPEN),
        (OPEN, 999, NO_CLIENTS),
        (NO_CLIENTS, 1_099, NO_CLIENTS),
        (NO_CLIENTS, 1_100, OPEN),
        (NO_CLIENTS, 500, NO_CLIENTS),
        (NO_CLIENTS, 499, NOTHING),
        (OPEN, 499, NOTHING),
        (NOTHING, 549, NOTHING),
        (NOTHING, 550, NO_CLIENTS),
        (NOTHING, 1_050, NO_CLIENTS),
        (NOTHING, 1_100, OPEN),
    ],
)
def test_it_closes_below_a_mark_and_opens_a_tenth_above_it(before, free, after):
    assert next_state(before, free_bytes=free, mark_bytes=MARK) is after


@pytest.mark.parametrize("before", DiskState)
def test_without_a_mark_it_is_open(before):
    assert next_state(before, free_bytes=0, mark_bytes=0) is OPEN
