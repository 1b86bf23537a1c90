"""What is found in an answer that tells something of another instance, and in one that tells nothing."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from highwater.kafka.messages.describe_transactions import (
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
)
from highwater.kafka.messages.find_coordinator import FindCoordinatorResponse
from highwater.kafka.messages.list_groups import ListGroupsResponse, ListGroupsResponseListedGroup
from highwater.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
    MetadataResponse,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
)
from highwater.kafka.messages.sasl_authenticate import SaslAuthenticateResponse
from tests.cluster.border.answers import Known, Renaming, Secrets, differences
from tests.cluster.border.names import nobodys

OURS = replace(
    nobodys(1),
    topic="of-blue-00001-topic",
    group="of-blue-00001-group",
    member="consumer-of-somebody",
    producer_id=77,
)
SECRETS = Secrets("blue", [OURS])


@pytest.mark.parametrize(
    "answer",
    [
        ListGroupsResponse(groups=[ListGroupsResponseListedGroup(group_id=OURS.group)]),
        SaslAuthenticateResponse(error_message=f"member {OURS.member} is there"),
        SaslAuthenticateResponse(auth_bytes=f"id {OURS.topic_id.hex()}".encode()),
        SaslAuthenticateResponse(
            error_message=base64.urlsafe_b64encode(OURS.topic_id).decode().rstrip("=")
        ),
        SaslAuthenticateResponse(error_message="this belongs to 'blue'"),
        SaslAuthenticateResponse(error_message="no partition of __instance_offsets"),
        MetadataResponse(topics=[MetadataResponseMetadataResponseTopic(topic_id=OURS.topic_id)]),
        DescribeTransactionsResponse(
            transaction_states=[DescribeTransactionsResponseTransactionState(producer_id=77)]
        ),
    ],
    ids=[
        "name",
        "member",
        "id in bytes",
        "id in text",
        "instance",
        "topic inside",
        "id",
        "producer",
    ],
)
def test_each_secret_is_found(answer: Any) -> None:
    assert SECRETS.told(answer, Known())


def test_what_was_named_is_no_secret_any_more_and_nothing_else() -> None:
    known = Known()
    known.learn(MetadataRequest([MetadataRequestMetadataRequestTopic(name=OURS.topic)]))
    named = MetadataResponseMetadataResponseTopic(name=OURS.topic, error_code=3)
    assert not SECRETS.told(MetadataResponse(topics=[named]), known)
    named.topic_id = OURS.topic_id
    assert SECRETS.told(MetadataResponse(topics=[named]), known)


def test_equal_answers_about_different_names_are_equal_and_others_are_not() -> None:
    nobody = nobodys(2)
    renaming = Renaming(OURS, nobody)
    plain = [
        renaming.plain(
            MetadataResponse(
                topics=[MetadataResponseMetadataResponseTopic(name=name, error_code=code)]
            )
        )
        for name, code in ((OURS.topic, 3), (nobody.topic, 3), (nobody.topic, 29))
    ]
    assert not differences(plain[0], plain[1])
    assert differences(plain[0], plain[2]) == [".topics[0].error_code: 3 != 29"]


def test_where_the_cluster_puts_things_is_no_difference_and_foreign_addresses_are() -> None:
    renaming = Renaming(OURS, brokers={(1, "h", 1001), (2, "h", 1002)})
    partitions = [
        renaming.plain(MetadataResponseMetadataResponsePartition(leader_id=node))
        for node in (1, 2, -1)
    ]
    assert not differences(partitions[0], partitions[1])
    assert differences(partitions[0], partitions[2])
    coordinators = [
        renaming.plain(FindCoordinatorResponse(node_id=node, host="h", port=port))
        for node, port in ((1, 1001), (2, 1002), (2, 2002))
    ]
    assert not differences(coordinators[0], coordinators[1])
    assert differences(coordinators[0], coordinators[2])
