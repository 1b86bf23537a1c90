"""For handlers that change the cluster: their timeouts, and duplicate names in a request."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode

PROPAGATION_MS_MAX: Final = 1_000
"""Longest time that the controller waits until live gateways and nodes have a change (decision 9)."""


def propagation_ms(timeout_ms: int) -> int:
    """How long the controller waits for members to follow, given the client's timeout."""
    return min(max(timeout_ms, 0), PROPAGATION_MS_MAX)


def call_timeout_s(context: RequestContext) -> float:
    """How long we wait for the controller."""
    return context.backend.settings.request_timeout_ms / 1000


async def await_visible(context: RequestContext, revision: int) -> None:
    """Waits until this gateway's image has the change, so that the client can see it.

    If that takes too long, the change is made all the same, and the answer is success.
    """
    await context.backend.wait_for_revision(revision, PROPAGATION_MS_MAX / 1000)


def duplicates(names: Iterable[str]) -> frozenset[str]:
    """Names that occur more than once."""
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def code_by_name(code: int) -> int:
    """Translates the controller's code for a topic that the client gave by name.

    The controller knows only ids. UNKNOWN_TOPIC_ID, for a topic deleted since this gateway's
    image, becomes UNKNOWN_TOPIC_OR_PARTITION; older clients do not know the former.
    """
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if code == ErrorCode.UNKNOWN_TOPIC_ID else code
