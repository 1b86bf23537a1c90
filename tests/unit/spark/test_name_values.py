from __future__ import annotations

import pytest

from highwater.model.errors import UsageError
from highwater.spark.name_values import name_values


def test_pairs_of_an_option() -> None:
    assert name_values(["a=", "b=c=d"], "--x") == {"a": "", "b": "c=d"}


@pytest.mark.parametrize("word", ["=b", "a", ""])
def test_what_is_no_pair_is_told_with_the_option(word: str) -> None:
    with pytest.raises(UsageError, match=f"--x wants NAME=VALUE, not {word!r}"):
        name_values(["a=b", word], "--x")
