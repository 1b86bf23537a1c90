from highwater.model.topic_config import effective
from highwater.partition.storage.config import LogConfig


def test_defaults_are_those_of_the_topic_configs() -> None:
    assert LogConfig.of(effective({})) == LogConfig()


def test_a_topics_configs() -> None:
    configs = {
        "segment.ms": "1000",
        "segment.jitter.ms": "5000",
        "cleanup.policy": "compact",
        "flush.messages": "1",
        "preallocate": "true",
    }
    config = LogConfig.of(effective(configs), jitter_share=0.5, producer_id_expiration_ms=7)
    assert config.segment_jitter_ms == 500, "jitter is never more than the time itself"
    assert (config.delete_policy, config.compact) == (False, True)
    assert config.flush_messages == 1
    assert config.preallocate
    assert config.producer_id_expiration_ms == 7


def test_what_a_node_s_broker_configs_say() -> None:
    assert LogConfig.of_node({}) == LogConfig()
    assert LogConfig.of_node({"producer.id.expiration.ms": "5"}).producer_id_expiration_ms == 5
