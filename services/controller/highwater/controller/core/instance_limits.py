"""An instance's limits that the controller enforces: partitions, and bytes of a message."""

from collections.abc import Mapping
from typing import Final

from highwater.controller.core.outcome import Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.topic_config import InvalidTopicConfigError, parse

MESSAGE_BYTES: Final = "max.message.bytes"


class PartitionAllowance:
    """What is left of `partitions_max` during one decision. Internal topics do not count."""

    def __init__(self, image: ClusterImage, instance: InstanceId) -> None:
        """Counts the instance's partitions, if it has a limit."""
        state = image.instances.get(instance)
        self._instance = instance
        self._limit = None if state is None else state.partitions_max
        self._used = 0
        if self._limit is not None:
            self._used = sum(
                len(topic.partitions)
                for topic in image.topics.values()
                if topic.instance == instance and not topic.internal
            )

    def take(self, count: int, topic: str) -> Refusal | None:
        """Adds partitions of a topic to those that are used; refuses if they are too many."""
        if self._limit is None or self._used + count <= self._limit:
            self._used += count
            return None
        return Refusal(
            code=ErrorCode.POLICY_VIOLATION,
            message=(
                f"instance '{self._instance}' may have {self._limit} partitions and has "
                f"{self._used}: no {count} more for topic '{topic}'"
            ),
        )


def message_bytes_error(
    image: ClusterImage, instance: InstanceId, wanted: Mapping[str, str]
) -> str | None:
    """Why a topic of the instance may not be given these configs, as far as its limit goes, or None."""
    state = image.instances.get(instance)
    limit = None if state is None else state.message_bytes_max
    if limit is None or MESSAGE_BYTES not in wanted:
        return None
    try:
        value = parse(MESSAGE_BYTES, wanted[MESSAGE_BYTES])
    except InvalidTopicConfigError as error:
        return str(error)
    assert isinstance(value, int)
    if value <= limit:
        return None
    return f"{MESSAGE_BYTES} is {value}, and instance '{instance}' allows {limit} at most"
