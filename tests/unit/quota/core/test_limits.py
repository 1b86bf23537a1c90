from highwater.quota.core.limits import Limits, is_limited
from tests.unit.quota.images import image, limited, topic


def test_leaders_are_counted_for_limited_instances_only():
    limits = Limits.of(
        image(
            [
                topic("a", [1, 1, 2]),
                topic("b", [3, -1]),
                topic("__consumer_offsets", [2] * 50, internal=True),
                topic("a", [1], instance="free"),
            ],
            limited(produce_bytes_per_second=1),
            limited("free"),
        )
    )
    assert set(limits.instances) == {"default"}
    assert limits.leaders == {"default": {1: 2, 2: 1, 3: 1}}


def test_images_that_differ_elsewhere_have_equal_limits():
    one, two = (
        Limits.of(image([topic(name, [1, 2])], limited(storage_bytes=5), revision=revision))
        for name, revision in (("a", 1), ("b", 2))
    )
    assert one == two


def test_any_limit_counts():
    assert not is_limited(limited())
    assert is_limited(limited(produce_bytes_per_second=0))
    assert is_limited(limited(consume_bytes_per_second=1))
    assert is_limited(limited(storage_bytes=1))
