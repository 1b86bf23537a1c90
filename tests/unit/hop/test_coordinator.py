"""A coordinator call carries a client's request, and is not cancelled at first."""

from highwater.hop.coordinator import CoordinatorCall
from highwater.model.ids import DEFAULT_INSTANCE


def test_calls_are_compared_by_identity():
    replies = []

    def call():
        return CoordinatorCall(
            api_key=11,
            api_version=9,
            instance=DEFAULT_INSTANCE,
            client_id="c",
            client_host="/127.0.0.1",
            body=b"body",
            partition=3,
            deadline_ms=1000,
            reply=lambda code, body: replies.append((code, body)),
        )

    one, other = call(), call()
    assert not one.cancelled
    assert one != other, "streams keep calls by identity"
    one.reply(16, b"")
    assert replies == [(16, b"")]
