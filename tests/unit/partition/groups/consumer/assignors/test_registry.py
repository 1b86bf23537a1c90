from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS


def test_the_default_comes_first():
    assert list(ASSIGNORS) == ["uniform", "range"]
    assert [assignor.name for assignor in ASSIGNORS.values()] == ["uniform", "range"]
