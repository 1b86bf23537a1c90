from highwater.quota.core.limits import Limits
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
    assert limits.leaderless == {"default": 1}


def test_images_that_differ_elsewhere_have_equal_limits():
    one, two = (
        Limits.of(image([topic(name, [1, 2])], limited(storage_bytes=5), revision=revision))
        for name, revision in (("a", 1), ("b", 2))
    )
    assert one == two
