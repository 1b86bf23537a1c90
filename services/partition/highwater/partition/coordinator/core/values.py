"""What a shard gets and gives, whatever it coordinates."""

from typing import Generic, NamedTuple, TypeVar

ResponseT = TypeVar("ResponseT")
"""What a shard answers to parked calls, not yet encoded."""


class Producer(NamedTuple):
    """Whose transaction a record belongs to."""

    producer_id: int
    producer_epoch: int


class Moment(NamedTuple):
    """One reading of both clocks; every handler gets one."""

    now_ms: int
    """Monotonic, for timers."""
    wall_ms: int
    """Since the Unix epoch, for records."""


class Reply(NamedTuple, Generic[ResponseT]):
    """The answer to a call that was parked."""

    token: object
    """The token that came with the request."""
    response: ResponseT
    after_commit: bool
    """True if the answer depends on records that must be committed first."""
