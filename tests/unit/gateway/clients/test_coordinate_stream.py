"""Coordinator calls over a real stream."""

import asyncio

import pytest

from highwater.hop.coordinator import BODY_BYTES_MAX, MESSAGE_BYTES_MAX, CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import USER, Principal, TopicView
from highwater.model.ids import InstanceId
from highwater.model.steps import finish
from tests.support.looked_at import longest_step
from tests.unit.gateway.clients.partition_node import until

AWAY = (ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")


class Call(CoordinatorCall):
    __slots__ = ("replies",)

    def __init__(self, body=b"body", *, partition=3):
        self.replies = []
        super().__init__(
            api_key=11,
            api_version=9,
            instance=InstanceId("team"),
            client_id="client",
            client_host="/127.0.0.1",
            body=memoryview(body),
            partition=partition,
            deadline_ms=5000,
            reply=lambda code, reply_body: self.replies.append((code, reply_body)),
        )


@pytest.fixture
async def ready(link):
    await until(lambda: link._coordinate.stream.is_open)
    return link


async def test_calls_arrive_unchanged_and_replies_in_any_order(node, ready):
    calls = [Call(b"%d" % n) for n in range(300)]
    for call in calls:
        ready.submit(call)
    there = node.coordinator.calls
    await until(lambda: len(there) == 300)
    first = there[0]
    assert (first.api_key, first.api_version, first.instance) == (11, 9, "team")
    assert (first.client_id, first.client_host, first.partition) == ("client", "/127.0.0.1", 3)
    assert first.deadline_ms == 5000
    for call in reversed(there):
        call.reply(0, b"reply to " + bytes(call.body))
        call.reply(0, b"a second reply is ignored")
    await until(lambda: all(call.replies for call in calls))
    await asyncio.sleep(0.02)
    assert [call.replies for call in calls] == [[(0, b"reply to %d" % n)] for n in range(300)]


async def test_what_the_client_may_describe_arrives(node, ready):
    view = TopicView(Principal(USER, "alice"), "10.0.0.1", visible_without_acl=True)
    for told in (view, None):
        call = Call()
        call.view = told
        ready.submit(call)
    there = node.coordinator.calls
    await until(lambda: len(there) == 2)
    assert [call.view for call in there] == [view, None]


async def test_large_calls_and_replies_go_in_messages_of_a_bounded_size(node, ready):
    messages = []
    next_message = ready._coordinate.stream._next_message
    ready._coordinate.stream._next_message = lambda: messages.append(next_message()) or messages[-1]
    received = ready._coordinate.stream._received
    ready._coordinate.stream._received = lambda got: (messages.append(got), received(got))
    calls = [Call(bytes(600_000)) for _ in range(20)]
    for call in calls:
        ready.submit(call)
    there = node.coordinator.calls
    await until(lambda: len(there) == 20)
    for call in there:
        call.reply(0, call.body)
    await until(lambda: all(call.replies for call in calls))
    assert max(len(message) for message in messages if message) < 2 * MESSAGE_BYTES_MAX


async def test_cancelling_reaches_the_coordinator(node, ready):
    parked, unsent = Call(), Call()
    ready.submit(parked)
    await until(lambda: node.coordinator.calls)
    ready.cancel(parked)
    ready.submit(unsent)
    ready.cancel(unsent)
    await until(lambda: node.coordinator.cancelled)
    assert node.coordinator.cancelled == node.coordinator.calls
    node.coordinator.calls[0].reply(0, b"too late")
    after = Call()
    ready.submit(after)
    await until(lambda: len(node.coordinator.calls) == 2)
    node.coordinator.calls[1].reply(16, b"")
    await until(lambda: after.replies)
    assert after.replies == [(16, b"")]
    assert parked.replies == unsent.replies == []


async def test_calls_to_a_dead_node_fail_until_it_restarts(node, ready):
    call = Call()
    ready.submit(call)
    await until(lambda: node.coordinator.calls)
    await node.kill()
    await until(lambda: call.replies)
    assert call.replies == [AWAY]
    assert node.coordinator.cancelled == node.coordinator.calls
    await until(lambda: not ready._coordinate.stream.is_open)
    late = Call()
    ready.submit(late)
    assert late.replies == [AWAY]
    await node.start()
    await until(lambda: ready._coordinate.stream.is_open)
    again = Call()
    ready.submit(again)
    await until(lambda: len(node.coordinator.calls) == 2)
    node.coordinator.calls[1].reply(0, b"ok")
    await until(lambda: again.replies)


async def test_calls_to_a_fenced_node_end(node, ready):
    sent, unsent = Call(), Call()
    ready.submit(sent)
    await until(lambda: node.coordinator.calls)
    ready.submit(unsent)
    ready.set_fenced(True)
    finish(ready.ending_waits())
    late = Call()
    ready.submit(late)
    assert sent.replies == unsent.replies == late.replies == [AWAY]
    await until(lambda: node.coordinator.cancelled == node.coordinator.calls)
    ready.set_fenced(False)
    again = Call()
    ready.submit(again)
    await until(lambda: len(node.coordinator.calls) == 2)
    node.coordinator.calls[1].reply(0, b"ok")
    await until(lambda: again.replies)
    assert sent.replies == [AWAY]


async def test_closing_the_link_answers_waiting_calls(node, ready):
    sent, unsent = Call(), Call()
    ready.submit(sent)
    await until(lambda: node.coordinator.calls)
    ready.submit(unsent)
    await ready.close()
    assert sent.replies == unsent.replies == [AWAY]
    late = Call()
    ready.submit(late)
    assert late.replies == [AWAY]


async def test_large_calls_get_their_own_message_and_too_large_ones_fail(node, ready):
    """Together they would exceed gRPC's limit, which would end all calls of the stream."""
    sizes = [400_000] * 4 + [3 << 20] + [10] * 3
    calls = [Call(bytes(size)) for size in sizes]
    huge = Call(bytes(BODY_BYTES_MAX + 1))
    messages = []
    stream = ready._coordinate.stream
    following = stream._next_message

    def counted():
        message = following()
        messages.extend([] if message is None else [len(message)])
        return message

    stream._next_message = counted
    for call in (*calls, huge):
        ready.submit(call)
    assert huge.replies == [(ErrorCode.INVALID_REQUEST, b"")]
    await until(lambda: len(node.coordinator.calls) == len(calls))
    assert [len(call.body) for call in node.coordinator.calls] == sizes
    assert [round(size, -5) for size in messages] == [800_000, 800_000, 3_100_000, 0]


async def test_many_calls_to_a_fenced_node_end_in_steps(node, ready):
    """Ten thousand answers in one turn of the loop would stop all clients for half a second."""
    calls = [Call() for _ in range(100)]
    for call in calls[:60]:
        ready.submit(call)
    await until(lambda: len(node.coordinator.calls) == 60)
    for call in calls[60:]:
        ready.submit(call)

    def answers():
        return sum(len(call.replies) for call in calls)

    ready.set_fenced(True)
    assert answers() == 0
    steps = ready.ending_waits()
    next(steps)
    node.coordinator.calls[59].reply(0, b"late but true")
    ready.cancel(calls[58])
    await until(lambda: calls[59].replies)
    _, longest = longest_step(steps, answers)
    assert longest <= 16
    assert calls[58].replies == []
    assert calls[59].replies == [(0, b"late but true")]
    others = [*calls[:58], *calls[60:]]
    assert [call.replies for call in others] == [[AWAY]] * 98
    there = node.coordinator  # The stream has gone on meanwhile, and may have sent some more.
    await until(lambda: len(there.cancelled) == len(there.calls) - 1)


async def test_many_calls_of_a_stream_that_breaks_end_in_steps(node, ready):
    calls = [Call() for _ in range(100)]
    for call in calls[:60]:
        ready.submit(call)
    await until(lambda: len(node.coordinator.calls) == 60)
    for call in calls[60:]:
        ready.submit(call)

    def answers():
        return sum(len(call.replies) for call in calls)

    ready._coordinate.stream.reset()
    assert answers() == 16
    ready.cancel(calls[98])
    late = Call()
    ready.submit(late)
    assert late.replies == [AWAY], "it does not wait at all"
    while answers() < 99:
        before = answers()
        await asyncio.sleep(0)
        assert answers() - before <= 16
    assert calls[98].replies == []
    assert [call.replies for call in (*calls[:98], calls[99])] == [[AWAY]] * 99
    await until(lambda: ready._coordinate.stream.is_open)
    assert ready._coordinate._cancelled == []
