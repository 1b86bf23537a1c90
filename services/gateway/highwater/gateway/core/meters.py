"""Counters of requests, one set for each API, cheap enough for Produce and Fetch.

Plain numbers in slotted objects; `metrics.gateway` turns them into metric families at a scrape.
Sessions count replies when they leave. Latency is measured from the loop turn that read the end of
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
"""Upper bounds of the latency histogram's buckets; one more bucket is above the last."""

_NS_PER_S: Final = 1_000_000_000
_BOUNDS_NS: Final[Sequence[int]] = tuple(round(bound * _NS_PER_S) for bound in LATENCY_BOUNDS_S)


class ApiMeter:
    """Counters of one API; they only grow."""

    __slots__ = ("buckets", "bytes_in", "bytes_out", "errors", "latency_ns")

    def __init__(self) -> None:
        self.bytes_in = 0
        """Bytes of answered requests, without size prefixes."""
        self.bytes_out = 0
        """Bytes of their replies, with size prefixes and bytes sent from files."""
        self.latency_ns = 0
        """Sum over these requests, from the frame's arrival to the reply's departure."""
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        """Requests by latency: one bucket up to each of LATENCY_BOUNDS_S, and one above all."""
        self.errors: dict[int, int] = {}
        """By Kafka's error code; code 0 is not counted."""

    @property
    def requests(self) -> int:
        """Answered requests; with acks=0, completed requests."""
        return sum(self.buckets)

    def answered(self, requests: int, bytes_in: int, bytes_out: int, latency_ns: int) -> None:
        """Counts requests that had the same latency."""
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.latency_ns += latency_ns * requests
        self.buckets[bisect_left(_BOUNDS_NS, latency_ns)] += requests

    def failed(self, error_code: int, count: int = 1) -> None:
        """Counts error results: of partitions, topics, groups, or a whole response."""
        self.errors[error_code] = self.errors.get(error_code, 0) + count


class RequestMeters:
    """The meters of all APIs of one gateway."""

    __slots__ = ("apis", "failed_replies", "fetch", "produce", "refused")

    def __init__(self) -> None:
        self.apis: defaultdict[int, ApiMeter] = defaultdict(ApiMeter)
        """By API key. Only served APIs are added, so there are few."""
        self.produce = self.apis[PRODUCE]
        self.fetch = self.apis[FETCH]
        self.refused = 0
        """Requests after which the connection was closed: malformed, unknown, or not served."""
        self.failed_replies = 0
        """Replies that a bug prevented; each closed its connection."""


class Departures:
    """Counts replies that leave in one loop turn, by API and arrival turn.

    Sessions add to its numbers while `api_key` and `arrived_ns` match their reply, and otherwise
    call `begin` first. At the end of a turn all counts are settled.
    """

    __slots__ = ("_meters", "api_key", "arrived_ns", "bytes_in", "bytes_out", "requests")

    def __init__(self, meters: RequestMeters) -> None:
        self._meters = meters
        self.api_key = 0
        self.arrived_ns = 0
        """The same object for all frames of a turn, so that `is` compares it, which is cheaper."""
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def begin(self, api_key: int, arrived_ns: int, left_ns: int) -> None:
        """Starts counting replies of another API or arrival turn."""
        if self.requests:
            self.settle(left_ns)
        self.api_key = api_key
        self.arrived_ns = arrived_ns

    def settle(self, left_ns: int) -> None:
        """Adds the counts to the API's meter; the replies left at `left_ns`."""
        if self.requests:
            self._meters.apis[self.api_key].answered(
                self.requests, self.bytes_in, self.bytes_out, left_ns - self.arrived_ns
            )
            self.requests = self.bytes_in = self.bytes_out = 0
