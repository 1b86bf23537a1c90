"""Errors in Produce replies, as clients of each version know them."""

import pytest

from highwater.gateway.data_plane.produce_encoding import (
    current_leader,
    encode_reply,
    failed_partition,
    told,
)
from highwater.gateway.routing.brokers import Entrance
from highwater.hop.append import OUTCOME_UNKNOWN, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import produce as codec

UNKNOWN = Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize(
    ("version", "failure", "code"),
    [
        (12, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID),
        (10, Failure(ErrorCode.TRANSACTION_ABORTABLE), ErrorCode.INVALID_TXN_STATE),
        (11, Failure(ErrorCode.TRANSACTION_ABORTABLE), ErrorCode.TRANSACTION_ABORTABLE),
        (13, Failure(ErrorCode.TRANSACTION_ABORTABLE), ErrorCode.TRANSACTION_ABORTABLE),
        (3, Failure(ErrorCode.CORRUPT_MESSAGE), ErrorCode.CORRUPT_MESSAGE),
        (0, Failure(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, Failure(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (4, Failure(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.KAFKA_STORAGE_ERROR),
        (13, Failure(ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_codes_that_older_clients_do_not_know_or_newer_ones_do_not_expect(version, failure, code):
    assert told(version, failure, None).error_code == code


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_refusal_keeps_its_message_and_outcome(code):
    failure = Failure(code, "why", outcome=OUTCOME_UNKNOWN)
    other = told(3, failure, None)
    assert (other.message, other.outcome) == ("why", OUTCOME_UNKNOWN)


@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_reply_has_the_errors_of_partitions(version):
    failure = Failure(ErrorCode.INVALID_RECORD, "no key", record_errors=[(4, "no key")])
    assert current_leader(version, None, 0, failure, Entrance()) is None
    key = ("", b"i" * 16) if version >= 13 else ("orders", bytes(16))
    reply = encode_reply(version, 7, [(key, [failed_partition(3, failure, None)])], 50, [])
    assert int.from_bytes(reply[:4], "big") == len(reply) - 4
    response = codec.decode_response(reply, 9, version)
    assert response.throttle_time_ms == 50
    [topic] = response.responses
    assert (topic.name, topic.topic_id) == key
    [partition] = topic.partition_responses
    assert (partition.index, partition.error_code, partition.base_offset) == (3, 87, -1)
    assert partition.error_message == "no key"
    assert [one.batch_index for one in partition.record_errors] == [4]
