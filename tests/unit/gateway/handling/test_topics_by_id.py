"""Topics by id, of the client's instance only."""

from highwater.gateway.handling.topics_by_id import topic_by_id
from highwater.model.ids import NO_TOPIC_ID, InstanceId
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
)


def test_a_topic_by_id():
    theirs = topic("theirs", instance=InstanceId("team"))
    backend = FakeBackend(image_of(topic("orders"), theirs))
    context = Client(backend).context(3, 12)
    assert topic_by_id(context, topic_id("orders")).name == "orders"
    assert topic_by_id(context, theirs.topic_id) is None
    assert topic_by_id(context, NO_TOPIC_ID) is None
