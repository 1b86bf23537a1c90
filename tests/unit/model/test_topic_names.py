import pytest

from highwater.model.topic_names import NAME_CHARS_MAX, invalid_topic_name


@pytest.mark.parametrize("name", ["a", "access_log", "A.b-C_9", "...", "x" * NAME_CHARS_MAX])
def test_legal_names(name):
    assert invalid_topic_name(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "naïve", "a\n", "x" * (NAME_CHARS_MAX + 1)]
)
def test_illegal_names(name):
    assert invalid_topic_name(name) is not None
