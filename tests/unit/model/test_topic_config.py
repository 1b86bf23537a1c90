import pytest

from highwater.model.topic_config import (
    EffectiveConfigs,
    InvalidTopicConfigError,
    changed_list,
    effective,
    effective_value,
    from_broker_config,
    is_valid,
    parse,
    validate,
    validate_change,
)
from highwater.model.topic_config_table import LONG_MAX


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "-1", -1),
        ("retention.ms", " 5 ", 5),
        ("retention.bytes", "-5", -5),
        ("preallocate", "TRUE", True),
        ("cleanup.policy", "", ()),
        ("cleanup.policy", "delete, compact", ("delete", "compact")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
        ("segment.bytes", "1048576", 1 << 20),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("record.validation", "deep", "deep"),
        ("produce.allowed.networks", "10.0.0.0/8, ::1", ("10.0.0.0/8", "::1")),
        ("consume.allowed.networks", "none", ("none",)),
        ("consume.allowed.networks", "", ()),
    ],
)
def test_values_that_kafka_takes(name: str, text: str, value: object) -> None:
    assert parse(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        # The exact messages of org.apache.kafka.storage.internals.log.LogConfig in 4.3.1.
        ("foo", "1", "Unknown topic config name: foo"),
        (
            "retention.ms",
            "-2",
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            "retention.ms",
            "abc",
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "segment.bytes",
            "99999999999",
            "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            "segment.bytes",
            "100",
            "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            "cleanup.policy",
            "x",
            (
                "Invalid value x for configuration cleanup.policy:"
                " String must be one of: compact, delete"
            ),
        ),
        (
            "compression.type",
            "none",
            (
                "Invalid value none for configuration compression.type: String must be one of:"
                " uncompressed, zstd, lz4, snappy, gzip, producer"
            ),
        ),
        (
            "compression.gzip.level",
            "0",
            (
                "Invalid value 0 for configuration compression.gzip.level:"
                " Value must be between 1 and 9 or equal to -1"
            ),
        ),
        (
            "preallocate",
            "yes",
            (
                "Invalid value yes for configuration preallocate:"
                " Expected value to be either true or false"
            ),
        ),
    ],
)
def test_values_that_kafka_refuses(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidTopicConfigError) as refused:
        parse(name, text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "1_000"),
        ("retention.ms", ""),
        ("retention.ms", "1e3"),
        ("min.cleanable.dirty.ratio", "2"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("leader.replication.throttled.replicas", "a:b"),
        ("local.retention.ms", "-3"),
        ("message.timestamp.type", "createtime"),
        ("flush.messages", "0"),
        ("compression.zstd.level", "23"),
        ("record.validation", "none"),
        ("produce.allowed.networks", "10.0.0.0/33"),
        ("consume.allowed.networks", "none,10.0.0.0/8"),
        ("consume.allowed.networks", "host"),
    ],
)
def test_other_values_that_are_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidTopicConfigError):
        parse(name, text)


def test_configs_must_not_contradict_one_another() -> None:
    validate({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidTopicConfigError, match=r"conflict .*\(10\) > .*\(5\)"):
        validate({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidTopicConfigError, match="Tiered"):
        validate({"remote.storage.enable": "true"})


def test_effective_takes_topic_then_brokers_then_kafka() -> None:
    brokers = {
        "log.segment.bytes": "2000000",
        "log.retention.hours": "2",
        "min.insync.replicas": "2",
    }
    config = effective({"segment.bytes": "3000000", "cleanup.policy": "compact"}, brokers)
    assert config.segment_bytes == 3_000_000
    assert config.retention_ms == 7_200_000
    assert config.min_insync_replicas == 2
    assert config.flush_messages == LONG_MAX
    assert config.compacted
    assert config.deep_validation
    assert not effective({}).deep_validation
    assert effective({"record.validation": "deep"}).deep_validation
    assert effective({"message.timestamp.type": "LogAppendTime"}).log_append_time


def test_finer_units_of_broker_times_win() -> None:
    brokers = {"log.retention.hours": "2", "log.retention.minutes": "3"}
    assert effective({}, brokers).retention_ms == 180_000
    assert effective({}, brokers | {"log.retention.ms": "77"}).retention_ms == 77
    assert effective({}, {"log.retention.hours": "-1"}).retention_ms == -1


def test_a_stored_value_that_is_no_longer_valid_counts_as_unset() -> None:
    assert (
        effective({"segment.bytes": "1"}, {"log.segment.bytes": "5000000"}).segment_bytes
        == 5_000_000
    )
    assert effective({}, {"log.segment.bytes": "x"}).segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("present", "change", "after"),
    [
        (None, {"added": "compact"}, "delete,compact"),
        ("compact", {"added": "delete"}, "compact,delete"),
        ("compact,delete", {"added": "delete"}, "compact,delete"),
        ("compact, delete,compact", {"removed": "delete"}, "compact"),
        ("compact", {"removed": "delete"}, "compact"),
        ("delete", {"removed": "delete"}, ""),
        ("burn", {"added": "compact"}, "delete,compact"),
    ],
)
def test_lists_grow_and_shrink(present: str | None, change: dict[str, str], after: str) -> None:
    configs = {} if present is None else {"cleanup.policy": present}
    assert changed_list("cleanup.policy", configs, {}, **change) == after


def test_a_list_that_is_not_set_grows_from_the_brokers() -> None:
    brokers = {"log.cleanup.policy": "compact"}
    assert changed_list("cleanup.policy", {}, brokers, added="delete") == "compact,delete"


def test_a_change_is_checked_together_with_kept_values() -> None:
    kept = {"min.compaction.lag.ms": "10", "segment.bytes": "1"}
    validate_change(kept, {"retention.ms": "5"})
    with pytest.raises(InvalidTopicConfigError, match="conflict"):
        validate_change(kept, {"max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidTopicConfigError, match=r"Unknown topic config name: no\.such"):
        validate_change({}, {"no.such": "5"})


def test_single_values() -> None:
    assert effective_value("retention.ms", {"retention.ms": "5"}) == 5
    assert effective_value("retention.ms", {"retention.ms": "x"}, {"log.retention.ms": "7"}) == 7
    assert effective_value("unclean.leader.election.enable", {}) is False
    assert is_valid("retention.ms", "5")
    assert not is_valid("retention.ms", "x")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("log.retention.ms", "x", "x"),
        ("log.retention.minutes", " 2 ", "120000"),
        ("log.roll.hours", "1", "3600000"),
        ("log.retention.hours", "-1", "-1"),
        ("log.retention.hours", "1.5", None),
    ],
)
def test_broker_times_in_the_topic_s_unit(name: str, value: str, text: str | None) -> None:
    assert from_broker_config(name, value) == text


def test_of_broker_values_the_first_valid_one_wins() -> None:
    brokers = {"log.retention.ms": "soon", "log.retention.hours": "1"}
    assert effective({}, brokers).retention_ms == 3_600_000


def test_configs_in_effect_are_made_anew_only_for_other_mappings() -> None:
    known = EffectiveConfigs()
    configs, brokers = {"retention.ms": "5"}, {"log.retention.ms": "7"}
    first = known.of(configs, brokers)
    assert first == effective(configs, brokers)
    assert known.of(configs, brokers) is first
    assert known.of({"retention.ms": "6"}, brokers).retention_ms == 6
    assert known.of({}, brokers).retention_ms == 7
    assert known.of({}, {}) == effective({})
