"""What handlers that change the cluster share: how long they wait, and names given twice."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode

PROPAGATION_MS_MAX: Final = 1_000
"""Longest time that the controller waits for live gateways and nodes to follow a change (decision 9)."""


def propagation_ms(timeout_ms: int) -> int:
    """How long the controller shall wait for others, by the timeout that the client gave."""
    return min(max(timeout_ms, 0), PROPAGATION_MS_MAX)


def call_timeout_s(context: RequestContext) -> float:
    """How long we wait for the controller."""
    return context.backend.settings.request_timeout_ms / 1000


async def await_visible(context: RequestContext, revision: int) -> None:
    """Waits until this gateway's own copy has the change, so that the client sees what it did.

    If that takes too long the change is still made, and the client is told so.
    """
    await context.backend.wait_for_revision(revision, PROPAGATION_MS_MAX / 1000)


def named_twice(names: Iterable[str]) -> frozenset[str]:
    """Names that occur more than once."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def code_by_name(code: int) -> int:
    """The controller's code for a topic that the client gave by name.

    The controller knows only ids. What was deleted since this gateway's image is an unknown name,
    and older clients do not know the code for an id.
    """
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if code == ErrorCode.UNKNOWN_TOPIC_ID else code
