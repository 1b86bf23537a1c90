"""Counts bytes that a node sends to its followers and gets from its leaders, for the metrics."""

from collections import Counter


class ReplicaTraffic:
    """Bytes of records since the start, counted once per message; on the node's loop."""

    def __init__(self) -> None:
        self.bytes_out: Counter[int] = Counter()
        """By follower node. A place in a file counts as the bytes that it refers to."""
        self.bytes_in: Counter[int] = Counter()
        """By leader node."""
        self.file_bytes_in: Counter[int] = Counter()
        """Those of `by_leader` that were read from the leader's files."""
        self.missed_places = 0
        """Places whose bytes did not match or were not in memory; the leader then sends bytes."""

    def sent(self, node: int, nbytes: int) -> None:
        """Counts an answer to a follower."""
        self.bytes_out[node] += nbytes

    def received(self, node: int, nbytes: int, from_files: int = 0) -> None:
        """Counts a leader's answer, of which `from_files` bytes were read from its files."""
        self.bytes_in[node] += nbytes
        if from_files:
            self.file_bytes_in[node] += from_files
