"""Counters of requests, one set for each API, cheap enough for Produce and Fetch.

Plain numbers in slotted objects; `metrics.gateway` turns them into Prometheus' families at a scrape.
Sessions count replies where they leave. Latency is measured from the loop turn that read the end of
a frame to the turn in which the reply left. So most replies of a turn have the same latency, and
those of one API are counted together (`Departures`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

PRODUCE: Final = 0
FETCH: Final = 1

LATENCY_BOUNDS_S: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Upper bounds of the latency histogram's buckets; above the last there is one more."""

_NS_PER_S: Final = 1_000_000_000
_BOUNDS_NS: Final[Sequence[int]] = tuple(round(bound * _NS_PER_S) for bound in LATENCY_BOUNDS_S)


class ApiMeter:
    """Counters of one API; they only grow."""

    __slots__ = ("buckets", "bytes_in", "bytes_out", "errors", "latency_ns")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Of requests that were answered, without their size prefixes."""
        self.bytes_out = 0
        """Of their replies, with size prefixes; bytes that leave from files count, too."""
        self.latency_ns = 0
        """Sum over these requests, from the frame's arrival to the reply's departure."""
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        """Requests by latency: up to each of LATENCY_BOUNDS_S, and above all of them."""
        self.errors: dict[int, int] = {}
        """By Kafka's error code; code 0 is not counted."""

    @property
    def requests(self) -> int:
        """Requests that were answered; with acks=0, those that were done."""
        return sum(self.buckets)

    def answered(self, requests: int, bytes_in: int, bytes_out: int, latency_ns: int) -> None:
        """Counts requests that had the same latency."""
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.latency_ns += latency_ns * requests
        self.buckets[bisect_left(_BOUNDS_NS, latency_ns)] += requests

    def failed(self, error_code: int, count: int = 1) -> None:
        """Counts results with an error: of partitions, topics, groups, or a whole response."""
        self.errors[error_code] = self.errors.get(error_code, 0) + count


class RequestMeters:
    """The meters of all APIs of one gateway."""

    __slots__ = ("apis", "failed_replies", "fetch", "produce", "refused")

    def __init__(self) -> None:
        self.apis: defaultdict[int, ApiMeter] = defaultdict(ApiMeter)
        """By API key. Only APIs that are served get here, so there are never many."""
        self.produce = self.apis[PRODUCE]
        self.fetch = self.apis[FETCH]
        self.refused = 0
        """Requests that closed their connection: malformed, unknown, or not served."""
        self.failed_replies = 0
        """Replies that could not be made, which is a bug; each closed its connection."""


class Departures:
    """Counts replies that leave in one loop turn: those of one API that arrived in one turn together.

    Sessions add to its numbers while `api_key` and `arrived_ns` are those of their reply, and call
    `begin` where they are not. At the end of a turn nothing is left here.
    """

    __slots__ = ("_meters", "api_key", "arrived_ns", "bytes_in", "bytes_out", "requests")

    def __init__(self, meters: RequestMeters) -> None:
        self._meters = meters
        self.api_key = 0
        self.arrived_ns = 0
        """One object for all that a turn has read: to compare by `is` is enough, and cheaper."""
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def begin(self, api_key: int, arrived_ns: int, left_ns: int) -> None:
        """Replies of another API, or that arrived in another turn, are next."""
        if self.requests:
            self.settle(left_ns)
        self.api_key = api_key
        self.arrived_ns = arrived_ns

    def settle(self, left_ns: int) -> None:
        """Gives what was counted to the API's meter; the replies left at `left_ns`."""
        if self.requests:
            self._meters.apis[self.api_key].answered(
                self.requests, self.bytes_in, self.bytes_out, left_ns - self.arrived_ns
            )
            self.requests = self.bytes_in = self.bytes_out = 0
