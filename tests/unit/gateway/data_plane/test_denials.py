"""Who may produce and fetch: what is asked for the topics and the transactional id of a request."""

import pytest

from highwater.gateway.data_plane.denials import (
    has_transactional_records,
    is_of_replica,
    produce_denials,
    unreadable_topics,
)
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch, produce
from highwater.kafka.records.batch import ATTRIBUTES_AT, MAGIC, MAGIC_AT, TRANSACTIONAL_BIT
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import ANONYMOUS, AllowAll, Requester, Resource, ResourceType
from highwater.model.ids import DEFAULT_INSTANCE
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.shape_frames import topic_id_of
from tests.unit.gateway.handlers.fakes import DenySome, a_topic

WHO = Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
ROUTING = RoutingTable(lambda _node: None)
ROUTING.apply(image_of(topics=[topic_state("orders", [(1,)]), topic_state("clicks", [(1,)])]))
CLIENT = ClientInfo(
    Peer(instance=DEFAULT_INSTANCE, node=None, host="192.0.2.7", port=5),
    ROUTING.topics_of(DEFAULT_INSTANCE),
)
PAYMENTS = Resource(ResourceType.TRANSACTIONAL_ID, "payments")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def batch(attributes=0):
    header = bytearray(61)
    header[MAGIC_AT] = MAGIC
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
    transactional = has_transactional_records(asked)
    found = produce_denials(authorizer, CLIENT, asked, transactional=transactional)
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
    assert unreadable_topics(authorizer, CLIENT, asked) == {"clicks"}
    assert authorizer.asked == [
        (WHO, AclOperation.READ, a_topic("orders")),
        (WHO, AclOperation.READ, a_topic("clicks")),
    ]


def test_nothing_is_looked_at_where_everything_is_allowed():
    asked = request(("orders", [batch(TRANSACTIONAL_BIT)]), transactional_id="payments")
    del asked.topic_data
    assert not produce_denials(AllowAll(), CLIENT, asked, transactional=True)
    fetched = fetch.FetchRequest(topics=[fetch.FetchRequestFetchTopic(topic="orders")])
    assert not unreadable_topics(AllowAll(), CLIENT, fetched)


def test_transactional_records_without_an_id_are_denied_where_everything_is_allowed():
    asked = request(("orders", [batch()]), ("clicks", [batch(TRANSACTIONAL_BIT)]))
    assert codes(AllowAll(), asked) == {"orders": ID_DENIED, "clicks": ID_DENIED}


def test_topics_by_id_are_asked_for_by_their_names():
    """An unknown id is nobody's secret, and has no name to ask for."""
    ids = [topic_id_of("orders"), b"no such topic id", topic_id_of("clicks")]
    authorizer = DenySome(
        (AclOperation.READ, a_topic("clicks")), (AclOperation.WRITE, a_topic("orders"))
    )
    fetched = fetch.FetchRequest(topics=[fetch.FetchRequestFetchTopic(topic_id=one) for one in ids])
    assert unreadable_topics(authorizer, CLIENT, fetched) == {"clicks"}
    produced = produce.ProduceRequest(
        topic_data=[produce.ProduceRequestTopicProduceData(topic_id=one) for one in ids]
    )
    assert codes(authorizer, produced) == {"orders": DENIED}
    assert [one for _, _, one in authorizer.asked] == [a_topic("orders"), a_topic("clicks")] * 2


def test_replicas_say_so_by_a_field_or_a_tag():
    assert not is_of_replica(fetch.FetchRequest())
    assert is_of_replica(fetch.FetchRequest(replica_id=0))
    for replica, found in ((-1, False), (0, True)):
        state = fetch.FetchRequestReplicaState(replica, -1)
        assert is_of_replica(fetch.FetchRequest(replica_state=state)) == found
