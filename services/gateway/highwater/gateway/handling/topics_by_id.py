"""Topics that clients name by id (KIP-516), as the newest image has them."""

from highwater.gateway.handling.context import RequestContext
from highwater.model.cluster import TopicState
from highwater.model.ids import TopicId


def topic_by_id(context: RequestContext, topic_id: bytes) -> TopicState | None:
    """The topic, if it is one of the client's instance."""
    instance = context.peer.instance  # Asked for a topic that is nowhere, too: it takes as long.
    topic = context.backend.image.topics.get(TopicId(topic_id))
    return topic if topic is not None and topic.instance == instance else None
