from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.model.authorization import USER, Principal, TopicView
from highwater.partition.edge.coordinator_calls import call_of

SENT = pb.CoordinatorCall(
    call_id=4,
    api_key=68,
    api_version=1,
    instance="team",
    client_id="c",
    client_host="/10.0.0.1",
    coordinator_partition=7,
    deadline_ms=100,
    body=b"request",
)


def test_a_call_as_it_was_sent():
    answers = []
    call = call_of(SENT, lambda *answer: answers.append(answer))
    assert (call.api_key, call.api_version, call.instance, call.body) == (68, 1, "team", b"request")
    assert (call.client_id, call.client_host) == ("c", "/10.0.0.1")
    assert (call.partition, call.deadline_ms, call.view) == (7, 100, None)
    call.reply(0, b"answer")
    assert answers == [(0, b"answer")]


def test_what_the_client_may_describe():
    sent = pb.CoordinatorCall()
    sent.CopyFrom(SENT)
    sent.view.principal_type, sent.view.principal_name = "User", "alice"
    sent.view.host = "10.0.0.1"
    call = call_of(sent, lambda *_: None)
    assert call.view == TopicView(Principal(USER, "alice"), "10.0.0.1", visible_without_acl=False)
