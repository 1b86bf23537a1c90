"""What holds for single groups: configs that they have themselves (KIP-848), else the node's."""

from collections.abc import Callable

from highwater.model.cluster import ClusterImage
from highwater.model.dynamic_config import broker_values
from highwater.model.group_config import (
    ConsumerGroupConfig,
    GroupBounds,
    group_config,
    with_dynamic_configs,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import NO_NODE, NodeId
from highwater.partition.groups.key import GroupKey

ConfigOf = Callable[[GroupKey], ConsumerGroupConfig]
"""The present configs of a group; members get them with their next heartbeat, as in Kafka."""


class ImageGroupConfigs:
    """The configs in the newest image that it was given; lives as long as the node."""

    def __init__(self, bounds: GroupBounds, node_id: Callable[[], int] = lambda: NO_NODE) -> None:
        """`bounds` are the node's settings. Begins without configs of groups and dynamic ones."""
        self._settings = self._bounds = bounds
        self._node_id = node_id
        self._image = ClusterImage(revision=0, cluster_id="")

    def follow(self, image: ClusterImage) -> None:
        """Takes a newer image."""
        former, self._image = self._image, image
        if (
            image.cluster_configs is not former.cluster_configs
            or image.node_configs is not former.node_configs
        ):
            dynamic = broker_values(image, NodeId(self._node_id()), {})
            self._bounds = with_dynamic_configs(self._settings, dynamic)

    def of(self, key: GroupKey) -> ConsumerGroupConfig:
        """See `ConfigOf`."""
        return group_config(self._image, GroupConfigKey(*key), self._bounds)
