"""Replies that wait for other services, of clients that leave."""

from types import SimpleNamespace

from highwater.gateway.requests.handler_reply import HandlerReply


def reply_of(*, closed=False):
    return HandlerReply(SimpleNamespace(closed=closed, arrived_ns=3), 26, 10)


def test_cleanups_run_if_the_client_leaves():
    reply, left = reply_of(), []
    reply.on_disconnect(lambda: left.append("a"))
    reply.on_disconnect(lambda: left.append("b"))
    assert left == []
    reply.abandon()
    assert left == ["a", "b"]


def test_a_cleanup_runs_at_once_if_the_client_has_left():
    left = []
    reply_of(closed=True).on_disconnect(lambda: left.append("a"))
    assert left == ["a"]
