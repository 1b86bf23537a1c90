"""Answers calls: each once, in the words of its API."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import ResponseT


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies(Generic[ResponseT]):
    """How a coordinator words its answers, as three functions."""

    encode: Callable[[CoordinatorCall, ResponseT], bytes]
    """The body that answers a parked call."""
    error_for: Callable[[int, int], int]
    """(API key, error code) -> the code as the clients of this API understand it."""
    while_loading: Callable[[CoordinatorCall], bytes | None]
    """The body for a call to a shard that is being loaded; None for the error that says so."""

    def deliver(self, call: CoordinatorCall, body: bytes, error: int) -> None:
        """Answer a call once, unless its client is gone."""
        if not call.cancelled:
            if error:
                call.reply(int(self.error_for(call.api_key, error)), b"")
            else:
                call.reply(0, body)
            call.cancelled = True

    def refuse(self, call: CoordinatorCall, error: ErrorCode) -> None:
        """Answer a call that no shard can take now."""
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            body = self.while_loading(call)
            if body is not None:
                self.deliver(call, body, 0)
                return
        self.deliver(call, b"", error)
