"""What holds for single groups: configs that they have themselves (KIP-848), else the node's settings."""

from collections.abc import Callable

from highwater.model.cluster import ClusterImage
from highwater.model.group_config import ConsumerGroupConfig, GroupBounds, group_config
from highwater.model.group_config_table import GroupConfigKey
from highwater.partition.groups.key import GroupKey

ConfigOf = Callable[[GroupKey], ConsumerGroupConfig]
"""The present configs of a group; members get them with their next heartbeat, as in Kafka."""


class ImageGroupConfigs:
    """The configs in the newest image that it was given; lives as long as the node."""

    def __init__(self, bounds: GroupBounds) -> None:
        """`bounds` are the node's settings. Begins without configs of groups."""
        self._bounds = bounds
        self._image = ClusterImage(revision=0, cluster_id="")

    def follow(self, image: ClusterImage) -> None:
        """Takes a newer image."""
        self._image = image

    def of(self, key: GroupKey) -> ConsumerGroupConfig:
        """See `ConfigOf`."""
        return group_config(self._image, GroupConfigKey(*key), self._bounds)
