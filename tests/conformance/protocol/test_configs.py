"""Altered configs take effect at the next request, and DescribeConfigs shows them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from crc32c import crc32c

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.kafka.records.batch import is_log_append_time
from highwater.kafka.records.compression import Compression
from tests.conformance.protocol.requests import (
    batch,
    batches_of,
    fetch,
    list_offset,
    now_ms,
    produce,
)
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_OF_BROKER, _OF_ALL, _STATIC, _DEFAULT = 2, 3, 4, 5
_LATEST = -1
_HOUR_MS = 3_600_000
_CLOCKS_DIFFER_MS = 60_000
_LATE_S = 10.0

# Positions in the header of a record batch.
_CRC_AT, _CRC_FROM, _LAST_OFFSET_DELTA_AT, _COUNT_AT = 17, 21, 23, 57
_RECORDS_AT = 61


def _alter(
    connection: RawConnection, resource: tuple[int, str], name: str, value: str | None
) -> Any:
    """Sets a config, or deletes it for None; returns the resource's part of the reply."""
    change = IncrementalAlterConfigsRequestAlterableConfig(
        name=name, config_operation=_DELETE if value is None else _SET, value=value
    )
    wanted = IncrementalAlterConfigsRequestAlterConfigsResource(*resource, [change])
    return only(connection.ask(IncrementalAlterConfigsRequest(resources=[wanted]), 1).responses)


def _describe(connection: RawConnection, resource: tuple[int, str]) -> dict[str, Any]:
    asked = DescribeConfigsRequestDescribeConfigsResource(*resource, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    result = only(connection.ask(request, 4).results)
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def _resealed(changed: bytearray) -> bytes:
    struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


def _claiming(count: int, compression: int) -> bytes:
    """A batch of two records whose valid header claims `count` records."""
    changed = bytearray(batch([b"a" * 20, b"b" * 20], compression=compression))
    struct.pack_into(">i", changed, _LAST_OFFSET_DELTA_AT, count - 1)
    struct.pack_into(">i", changed, _COUNT_AT, count)
    return _resealed(changed)


def _with_a_record_past_the_end() -> bytes:
    changed = bytearray(batch([b"a" * 20]))
    changed[_RECORDS_AT] += 2  # The length is a zigzag varint: one byte too many.
    return _resealed(changed)


_MALFORMED = {
    "too few records": lambda: _claiming(3, Compression.NONE),
    "too few records, gzip": lambda: _claiming(3, Compression.GZIP),
    "too many records": lambda: _claiming(1, Compression.NONE),
    "too many records, zstd": lambda: _claiming(1, Compression.ZSTD),
    "a record past the end": _with_a_record_past_the_end,
}


def _in_force(cluster: Cluster, holds: Callable[[], bool]) -> None:
    """Asserts that the config takes effect: here at once, on Kafka's brokers a little later."""
    if cluster.mode in {"kafka", "external"}:
        wait_until(holds, timeout_s=_LATE_S, what="a config that was altered")
    else:
        assert holds()


@contextmanager
def _for_brokers(connection: RawConnection, broker: str, name: str, value: str) -> Iterator[None]:
    """Sets a config, and deletes it in the end, as other tests share the cluster.

    `broker` is an id, or "" for all brokers.
    """
    assert _alter(connection, (_BROKER, broker), name, value).error_code == ErrorCode.NONE
    try:
        yield
    finally:
        assert _alter(connection, (_BROKER, broker), name, None).error_code == ErrorCode.NONE


@pytest.mark.core
def test_a_smaller_limit_holds_for_the_next_produce(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    records = batch([b"x" * 2000])
    taken = 0

    def answers(code: ErrorCode) -> bool:
        nonlocal taken
        got = produce(connection, made_topic, records).error_code
        taken += got == ErrorCode.NONE
        return bool(got == code)

    assert answers(ErrorCode.NONE)
    resource = (_TOPIC, made_topic)
    assert _alter(connection, resource, "max.message.bytes", "1000").error_code == ErrorCode.NONE
    _in_force(cluster, lambda: answers(ErrorCode.MESSAGE_TOO_LARGE))
    assert produce(connection, made_topic, batch([b"small"])).error_code == ErrorCode.NONE
    assert _alter(connection, resource, "max.message.bytes", None).error_code == ErrorCode.NONE
    _in_force(cluster, lambda: answers(ErrorCode.NONE))
    assert list_offset(connection, made_topic, _LATEST).offset == taken + 1


@pytest.mark.core
def test_log_append_time_begins_with_the_next_produce(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    sent_ms = now_ms() - _HOUR_MS
    records = batch([b"x", b"y"], timestamps=[sent_ms - 5, sent_ms])
    assert produce(connection, made_topic, records).log_append_time_ms == -1
    altered = _alter(connection, (_TOPIC, made_topic), "message.timestamp.type", "LogAppendTime")
    assert altered.error_code == ErrorCode.NONE
    stamps: list[int] = []

    def is_stamped() -> bool:
        part = produce(connection, made_topic, records)
        assert part.error_code == ErrorCode.NONE
        stamps.append(part.log_append_time_ms)
        return stamps[-1] >= 0

    _in_force(cluster, is_stamped)
    assert abs(stamps[-1] - now_ms()) < _CLOCKS_DIFFER_MS
    own, *_, stamped = batches_of(fetch(connection, made_topic, 0))
    assert own.header().max_timestamp == sent_ms
    assert not is_log_append_time(own.header().attributes)
    assert is_log_append_time(stamped.header().attributes)
    assert stamped.header().max_timestamp == stamps[-1]


@pytest.mark.core(kind="too many records, zstd")
@pytest.mark.parametrize("kind", _MALFORMED)
def test_deep_validation_reads_the_records(
    cluster: Cluster, connection: RawConnection, made_topic: str, kind: str
) -> None:
    bad = _MALFORMED[kind]()
    offset = 0
    if cluster.mode not in {"kafka", "external"}:  # Kafka always validates the records.
        taken = produce(connection, made_topic, bad)
        assert taken.error_code == ErrorCode.NONE, "the header is fine"
        offset = list_offset(connection, made_topic, _LATEST).offset
        altered = _alter(connection, (_TOPIC, made_topic), "record.validation", "deep")
        assert altered.error_code == ErrorCode.NONE
    assert produce(connection, made_topic, bad).error_code == ErrorCode.INVALID_RECORD
    assert produce(connection, made_topic, batch([b"good"])).base_offset == offset


def test_broker_configs_are_the_defaults_of_topics(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    early = batch([b"x"], timestamps=[now_ms() + 2 * _HOUR_MS])

    def answers(code: ErrorCode) -> bool:
        return bool(produce(connection, made_topic, early).error_code == code)

    assert answers(ErrorCode.INVALID_TIMESTAMP)
    name = "log.message.timestamp.after.max.ms"
    with _for_brokers(connection, "", name, str(3 * _HOUR_MS)):
        _in_force(cluster, lambda: answers(ErrorCode.NONE))
        told = _describe(connection, (_TOPIC, made_topic))["message.timestamp.after.max.ms"]
        assert told.value == str(3 * _HOUR_MS)
    _in_force(cluster, lambda: answers(ErrorCode.INVALID_TIMESTAMP))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("no.such.config", "1", "no.such.config"),
        ("retention.ms", "soon", "retention.ms"),
        ("cleanup.policy", "burn", "cleanup.policy"),
        ("min.insync.replicas", "0", "at least 1"),
    ],
)
def test_invalid_topic_configs(
    connection: RawConnection, made_topic: str, name: str, value: str, message: str
) -> None:
    refused = _alter(connection, (_TOPIC, made_topic), name, value)
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert message in refused.error_message


def test_static_broker_configs_are_read_only(cluster: Cluster, connection: RawConnection) -> None:
    node = str(cluster.nodes[0].node_id)
    configs = _describe(connection, (_BROKER, node))
    delay = configs["group.initial.rebalance.delay.ms"]
    assert (delay.value, delay.config_source, delay.read_only) == ("0", _STATIC, True)
    assert not configs["log.retention.ms"].read_only
    assert configs["log.segment.bytes"].config_source == _DEFAULT
    refused = _alter(connection, (_BROKER, node), "group.initial.rebalance.delay.ms", "5")
    assert refused.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.core
def test_a_broker_config_overrides_the_cluster_config(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    """The leader's own smaller limit is in effect until it is deleted."""
    topics = [MetadataRequestMetadataRequestTopic(name=made_topic)]
    found = only(connection.ask(MetadataRequest(topics=topics), 9).topics)
    leader = next(str(part.leader_id) for part in found.partitions if part.partition_index == 0)
    name, records = "message.max.bytes", batch([b"x" * 2000])

    def answers(code: ErrorCode) -> bool:
        return bool(produce(connection, made_topic, records).error_code == code)

    def synonyms() -> list[tuple[str, int]]:
        config = _describe(connection, (_BROKER, leader))[name]
        assert config.value == config.synonyms[0].value
        assert not config.read_only
        return [(one.value, one.source) for one in config.synonyms]

    default = ("1048588", _DEFAULT)
    with _for_brokers(connection, "", name, "2000000"):
        _in_force(cluster, lambda: synonyms() == [("2000000", _OF_ALL), default])
        assert answers(ErrorCode.NONE)
        with _for_brokers(connection, leader, name, "1000"):
            _in_force(cluster, lambda: answers(ErrorCode.MESSAGE_TOO_LARGE))
            assert synonyms() == [("1000", _OF_BROKER), ("2000000", _OF_ALL), default]
            of_all = _describe(connection, (_BROKER, ""))
            assert (of_all[name].value, of_all[name].config_source) == ("2000000", _OF_ALL)
        _in_force(cluster, lambda: answers(ErrorCode.NONE))
    _in_force(cluster, lambda: synonyms() == [default])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.cleaner.backoff.ms", "5000"),
        ("log.cleaner.dedupe.buffer.size", "200000000"),
        ("log.cleaner.io.max.bytes.per.second", "1.0E8"),
        ("producer.id.expiration.ms", "86300000"),
        ("compression.type", "lz4"),
        ("compression.zstd.level", "5"),
        ("log.preallocate", "false"),
        ("log.segment.delete.delay.ms", "2000"),
        ("log.cleanup.policy", "compact,delete"),
    ],
)
def test_dynamic_broker_configs(
    cluster: Cluster, connection: RawConnection, name: str, value: str
) -> None:
    broker = (_BROKER, str(cluster.nodes[0].node_id))

    def told() -> tuple[str, int]:
        config = _describe(connection, broker)[name]
        return config.value, config.config_source

    before = told()
    assert not _describe(connection, broker)[name].read_only
    with _for_brokers(connection, "", name, value):
        _in_force(cluster, lambda: told() == (value, _OF_ALL))
    with _for_brokers(connection, broker[1], name, value):
        _in_force(cluster, lambda: told() == (value, _OF_BROKER))
    _in_force(cluster, lambda: told() == before)


@pytest.mark.parametrize(
    "name",
    [
        "node.id",
        "num.partitions",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.cleaner.enable",
        "log.retention.check.interval.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
        "offsets.retention.minutes",
        "offset.metadata.max.bytes",
        "auto.create.topics.enable",
        "replica.lag.time.max.ms",
    ],
)
def test_read_only_broker_configs(cluster: Cluster, connection: RawConnection, name: str) -> None:
    for broker in ("", str(cluster.nodes[0].node_id)):
        refused = _alter(connection, (_BROKER, broker), name, "1")
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "Cannot update these configs dynamically" in refused.error_message
        assert name in refused.error_message
        # Deleting a config that is not set succeeds.
        assert _alter(connection, (_BROKER, broker), name, None).error_code == ErrorCode.NONE
    assert _describe(connection, (_BROKER, str(cluster.nodes[0].node_id)))[name].read_only


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("message.max.bytes", "-1"),
        ("log.cleaner.backoff.ms", "-1"),
        ("log.cleaner.dedupe.buffer.size", "1000"),
        ("producer.id.expiration.ms", "0"),
        ("log.retention.ms", "soon"),
        ("log.cleanup.policy", "burn"),
        ("compression.type", "zip"),
        ("leader.replication.throttled.rate", "-1"),
    ],
)
def test_invalid_broker_config_values(connection: RawConnection, name: str, value: str) -> None:
    refused = _alter(connection, (_BROKER, ""), name, value)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message
    assert name not in _describe(connection, (_BROKER, ""))


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("group.min.session.timeout.ms", 3, "6000"),
        ("group.max.session.timeout.ms", 3, "1800000"),
        ("group.max.size", 3, "2147483647"),
        ("offsets.retention.minutes", 3, "10080"),
        ("offsets.retention.check.interval.ms", 5, "600000"),
        ("offset.metadata.max.bytes", 3, "4096"),
        ("producer.id.expiration.ms", 3, "86400000"),
        ("num.partitions", 3, "1"),
        ("log.retention.hours", 3, "168"),
        ("log.flush.scheduler.interval.ms", 5, str(2**63 - 1)),
        ("log.flush.interval.ms", 5, None),
        ("log.retention.ms", 5, None),
        ("compression.gzip.level", 3, "-1"),
        ("compression.lz4.level", 3, "9"),
        ("compression.zstd.level", 3, "3"),
        ("log.cleaner.dedupe.buffer.size", 5, "134217728"),
        ("log.cleaner.io.max.bytes.per.second", 6, "1.7976931348623157E308"),
    ],
)
def test_defaults_of_brokers(
    cluster: Cluster, connection: RawConnection, name: str, kind: int, default: str | None
) -> None:
    config = _describe(connection, (_BROKER, str(cluster.nodes[0].node_id)))[name]
    assert (config.value, config.config_source, config.config_type) == (default, _DEFAULT, kind)
    assert [one.value for one in config.synonyms] == ([] if default is None else [default])
