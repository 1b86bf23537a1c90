"""What a topic's configs mean for appends on this node, under the current broker configs.

A config that the topic does not set has the broker's value: set for this node, else for all nodes,
else in the node's own settings (`broker_values`). Logs take the same two mappings
(`storage.directory.log_manager`).

An instance may bound the bytes of messages (`message_bytes_bound`): the smaller number is in effect, also
for topics that were there before the bound.

Records of compacted topics must have keys, which takes deep validation. Internal topics have their
coordinators' codec, whatever compression.type is: Kafka creates them with one of their own.
"""

from collections.abc import Mapping
from typing import Final

from highwater.kafka.records.compression import Compression
from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.dynamic_config import broker_values
from highwater.model.ids import InstanceId, NodeId
from highwater.model.instances import InstanceState
from highwater.model.message_bounds import message_bytes_bound
from highwater.model.topic_config import EffectiveConfigs, TopicConfig, effective_value
from highwater.partition.data_plane.policy import CODEC_OF_PRODUCER, AppendPolicy

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def append_policy(
    topic: TopicState, config: TopicConfig, message_bytes_bound: int | None = None
) -> AppendPolicy:
    """How the leader of any partition of the topic validates and stamps batches; `config` is in effect."""
    message_bytes_max = config.max_message_bytes
    if message_bytes_bound is not None:
        message_bytes_max = min(message_bytes_max, message_bytes_bound)
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    codec = None if topic.internal else _CODECS.get(config.compression_type)
    return AppendPolicy(
        codec=CODEC_OF_PRODUCER if codec is None else int(codec),
        compression_level=None if codec is None else levels.get(codec),
        message_bytes_max=message_bytes_max,
        segment_bytes=config.segment_bytes,
        log_append_time=config.log_append_time,
        timestamp_before_ms_max=config.message_timestamp_before_max_ms,
        timestamp_after_ms_max=config.message_timestamp_after_max_ms,
        compacted=config.compacted and not topic.internal,
        validate_records=config.deep_validation,
    )


class TopicPolicies:
    """`append_policy` under the newest image's broker configs; used on one loop."""

    def __init__(self, static: Mapping[str, str]) -> None:
        """`static`: broker configs from the node's settings, under Kafka's names."""
        self._static = static
        self._configs = EffectiveConfigs()
        self._followed: Mapping[str, str] | None = None
        self._of_all_nodes: Mapping[str, str] = {}
        self._instances: Mapping[InstanceId, InstanceState] = {}
        self.rebounded: frozenset[InstanceId] = frozenset()
        """Instances whose bound for messages the last `follow` has changed."""

    @property
    def broker_configs(self) -> Mapping[str, str]:
        """This node's broker configs, under Kafka's names; see `broker_values`."""
        return self._static if self._followed is None else self._followed

    def follow(self, image: ClusterImage, node_id: NodeId) -> bool:
        """Takes the image's broker configs; True if they have changed, as at the first call."""
        before = self._followed
        instances = self._instances.keys() | image.instances.keys()
        self.rebounded = frozenset(
            each
            for each in instances
            if _bound(self._instances, each) != _bound(image.instances, each)
        )
        self._instances = image.instances
        self._of_all_nodes = image.cluster_configs
        self._followed = broker_values(image, node_id, self._static)
        return self._followed != before

    def min_isr(self, topic: TopicState) -> int:
        """min.insync.replicas as the controller has it: the topic's, or the cluster default."""
        value = effective_value("min.insync.replicas", topic.configs, self._of_all_nodes)
        assert isinstance(value, int)
        return value

    def append_policy(self, topic: TopicState) -> AppendPolicy:
        """See the function of the same name."""
        config = self._configs.of(topic.configs, self.broker_configs)
        return append_policy(topic, config, message_bytes_bound(self._instances, topic))


def _bound(instances: Mapping[InstanceId, InstanceState], instance: InstanceId) -> int | None:
    state = instances.get(instance)
    return None if state is None else state.message_bytes_max
