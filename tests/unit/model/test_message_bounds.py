from dataclasses import replace

from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.model.message_bounds import message_bytes_bound
from tests.support.controller_images import topic_state

SHOP = InstanceId("shop")
TOPIC = topic_state("t", [(1,)], instance=SHOP)


def test_the_bound_is_that_of_the_topics_instance() -> None:
    instances = {SHOP: InstanceState(instance=SHOP, message_bytes_max=0)}
    assert message_bytes_bound(instances, TOPIC) == 0
    assert message_bytes_bound(instances, topic_state("t", [(1,)])) is None
    assert message_bytes_bound({SHOP: InstanceState(instance=SHOP)}, TOPIC) is None
    assert message_bytes_bound({}, TOPIC) is None


def test_internal_topics_have_none() -> None:
    instances = {SHOP: InstanceState(instance=SHOP, message_bytes_max=5)}
    assert message_bytes_bound(instances, replace(TOPIC, internal=True)) is None
