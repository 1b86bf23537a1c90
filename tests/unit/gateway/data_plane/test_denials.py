"""Who may produce and fetch: what is asked for the topics and the transactional id of a request."""

import pytest

from highwater.gateway.data_plane.denials import produce_denials, unreadable_topics
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch, produce
from highwater.kafka.records.batch import ATTRIBUTES_AT, TRANSACTIONAL_BIT
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import ANONYMOUS, AllowAll, Requester, Resource, ResourceType
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.handlers.fakes import DenySome, a_topic

WHO = Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
PAYMENTS = Resource(ResourceType.TRANSACTIONAL_ID, "payments")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def batch(attributes=0):
    header = bytearray(61)
    header[ATTRIBUTES_AT + 1] = attributes
    return header


def request(*topics, transactional_id=None):
    """`topics` are (name, batches)."""
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                name=name,
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(index=n, records=records)
                    for n, records in enumerate(batches)
                ],
            )
            for name, batches in topics
        ],
    )


def codes(authorizer, asked):
    found = produce_denials(authorizer, WHO, asked)
    return {name: failure.error_code for name, failure in found.items()}


def test_topics_need_write():
    authorizer = DenySome((AclOperation.WRITE, a_topic("clicks")))
    asked = request(("orders", [batch()]), ("clicks", [batch(), batch()]), ("orders", [batch()]))
    assert codes(authorizer, asked) == {"clicks": DENIED}
    assert authorizer.asked == [
        (WHO, AclOperation.WRITE, a_topic("orders")),
        (WHO, AclOperation.WRITE, a_topic("clicks")),
    ]


@pytest.mark.parametrize("name", [None, "payments"])
def test_transactional_records_need_write_on_their_id(name):
    authorizer = DenySome((AclOperation.WRITE, PAYMENTS))
    batches = [None, b"", b"short", batch(), batch(TRANSACTIONAL_BIT)]
    asked = request(("orders", batches), ("clicks", [batch()]), transactional_id=name)
    assert codes(authorizer, asked) == {"orders": ID_DENIED, "clicks": ID_DENIED}
    assert [one for _, _, one in authorizer.asked] == [PAYMENTS] * bool(name)


def test_an_allowed_id_leaves_the_topics_to_be_asked_for():
    authorizer = DenySome((AclOperation.WRITE, a_topic("clicks")))
    batches = [batch(TRANSACTIONAL_BIT)]
    asked = request(("orders", batches), ("clicks", batches), transactional_id="payments")
    assert codes(authorizer, asked) == {"clicks": DENIED}


def test_an_id_without_transactional_records_is_not_asked_for():
    authorizer = DenySome((AclOperation.WRITE, PAYMENTS))
    assert codes(authorizer, request(("orders", [batch()]), transactional_id="payments")) == {}


def test_topics_need_read():
    authorizer = DenySome((AclOperation.READ, a_topic("clicks")))
    asked = fetch.FetchRequest(
        topics=[fetch.FetchRequestFetchTopic(topic=name) for name in ("orders", "clicks", "orders")]
    )
    assert unreadable_topics(authorizer, WHO, asked) == {"clicks"}
    assert authorizer.asked == [
        (WHO, AclOperation.READ, a_topic("orders")),
        (WHO, AclOperation.READ, a_topic("clicks")),
    ]


def test_nothing_is_looked_at_where_everything_is_allowed():
    asked = request(("orders", [batch(TRANSACTIONAL_BIT)]))
    del asked.topic_data
    assert not produce_denials(AllowAll(), WHO, asked)
    fetched = fetch.FetchRequest(topics=[fetch.FetchRequestFetchTopic(topic="orders")])
    assert not unreadable_topics(AllowAll(), WHO, fetched)
