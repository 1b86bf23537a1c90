"""The bound that an instance sets for messages of its topics, whatever these are configured to."""

from collections.abc import Mapping

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState


def message_bytes_bound(
    instances: Mapping[InstanceId, InstanceState], topic: TopicState
) -> int | None:
    """The highest max.message.bytes in effect for the topic; None if there is no bound.

    Internal topics have none: coordinators write there, not clients.
    """
    state = instances.get(topic.instance)
    return None if state is None or topic.internal else state.message_bytes_max
