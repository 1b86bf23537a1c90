"""Names that anybody may choose, as labels."""

from __future__ import annotations

from highwater.spark.page.labels import LABEL_LENGTH_MAX, UNSEEN, shorten, visible


def test_letters_of_any_script_stay_and_what_is_not_seen_shows():
    assert visible("/ä/文 <b>$x$") == "/ä/文 <b>$x$"
    for hidden in ("\0", "\n", "\x1b", "\u202e", "\u200b", "\ud800"):
        assert visible(f"a{hidden}b") == f"a{UNSEEN}b"


def test_long_names_are_cut_in_the_middle():
    assert shorten("x" * LABEL_LENGTH_MAX) == "x" * LABEL_LENGTH_MAX
    short = shorten("/beginning" + "x" * 90 + "end")
    assert len(short) == LABEL_LENGTH_MAX
    assert short.startswith("/beginning")
    assert short.endswith("xend")
    assert shorten("abcdef", 4) == "a…ef"
