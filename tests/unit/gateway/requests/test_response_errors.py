"""Error codes are found wherever a response has them."""

import pytest

from highwater.gateway.core.meters import ApiMeter
from highwater.gateway.handling.apis import APIS
from highwater.gateway.requests.response_errors import count_errors, shorten_messages
from highwater.kafka.error_messages import MESSAGE_CHARS_MAX
from highwater.kafka.messages import (
    add_partitions_to_txn,
    create_topics,
    find_coordinator,
    heartbeat,
    metadata,
    offset_fetch,
)
from highwater.kafka.registry import request_codec


def counted(response):
    meter = ApiMeter()
    count_errors(meter, response)
    return meter.errors


def test_a_code_of_the_whole_response():
    assert counted(heartbeat.HeartbeatResponse(error_code=25)) == {25: 1}
    assert counted(heartbeat.HeartbeatResponse()) == {}


def test_codes_of_topics_and_of_their_partitions():
    partition = metadata.MetadataResponseMetadataResponsePartition
    topic = metadata.MetadataResponseMetadataResponseTopic
    response = metadata.MetadataResponse(
        brokers=[metadata.MetadataResponseMetadataResponseBroker(node_id=1)],
        topics=[
            topic(
                name="a", partitions=[partition(error_code=5), partition(), partition(error_code=5)]
            ),
            topic(name="b", error_code=3),
        ],
    )
    assert counted(response) == {5: 2, 3: 1}


def test_codes_of_partitions_by_another_name():
    partition = add_partitions_to_txn.AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult
    topic = add_partitions_to_txn.AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult
    response = add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            topic("a", [partition(0, 51), partition(1), partition(2, 3)])
        ]
    )
    assert counted(response) == {51: 1, 3: 1}


def test_codes_of_groups_in_both_shapes_of_offset_fetch():
    group = offset_fetch.OffsetFetchResponseOffsetFetchResponseGroup
    assert counted(offset_fetch.OffsetFetchResponse(error_code=16)) == {16: 1}
    assert counted(offset_fetch.OffsetFetchResponse(groups=[group(error_code=16), group()])) == {
        16: 1
    }


def test_absent_lists_hold_nothing():
    assert counted(find_coordinator.FindCoordinatorResponse(coordinators=None)) == {}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_every_response_can_be_searched_for_errors(api):
    module = __import__(
        f"highwater.kafka.messages.{request_codec(api.key).name}", fromlist=["messages"]
    )
    (kind,) = [
        value
        for name, value in vars(module).items()
        if name.endswith("Response") and name == name_of(module)
    ]
    assert counted(kind()) == {}


def name_of(module):
    return module.__doc__.split(" ", 1)[0] + "Response"


def test_long_messages_are_cut_at_any_depth():
    topic = create_topics.CreateTopicsResponseCreatableTopicResult
    response = create_topics.CreateTopicsResponse(
        topics=[topic(error_message="x" * 40_000), topic(error_message="no"), topic()]
    )
    shorten_messages(response)
    messages = [one.error_message for one in response.topics]
    assert [len(one or "") for one in messages] == [MESSAGE_CHARS_MAX, 2, 0]
