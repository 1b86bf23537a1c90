"""Names that collide."""

from highwater.controller.core.topic_names import collision_key


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a.b") != collision_key("ab")
