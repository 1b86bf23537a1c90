from highwater.model.topic_config import effective
from highwater.partition.core.producer_budget import ProducerLimits
from highwater.partition.storage.config import LogConfig


def test_defaults_are_those_of_the_topic_configs() -> None:
    assert LogConfig.of(effective({}), producers=ProducerLimits()) == LogConfig()


def test_a_topics_configs() -> None:
    configs = {
        "segment.ms": "1000",
        "segment.jitter.ms": "5000",
        "cleanup.policy": "compact",
        "flush.messages": "1",
        "preallocate": "true",
    }
    config = LogConfig.of(
        effective(configs),
        jitter_share=0.5,
        producers=ProducerLimits(expiration_ms=7, per_partition=8),
    )
    assert config.segment_jitter_ms == 500, "jitter is never more than the time itself"
    assert (config.delete_policy, config.compact) == (False, True)
    assert config.flush_messages == 1
    assert config.preallocate
    assert (config.producer_id_expiration_ms, config.producers_max) == (7, 8)


def test_a_log_without_a_topic_has_the_node_s_limits() -> None:
    assert LogConfig.default(ProducerLimits()) == LogConfig()
    limits = ProducerLimits(expiration_ms=5, per_partition=6)
    assert LogConfig.default(limits) == LogConfig(producer_id_expiration_ms=5, producers_max=6)
