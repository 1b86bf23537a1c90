"""What a node has sent to its followers and got from its leaders, by node; for the metrics."""

from collections import Counter


class ReplicaTraffic:
    """Bytes of records since the start, counted once a message; on the node's loop."""

    def __init__(self) -> None:
        self.bytes_out: Counter[int] = Counter()
        """By follower node: as a leader. Places in files count as what lies there."""
        self.bytes_in: Counter[int] = Counter()
        """By leader node: as a follower."""
        self.file_bytes_in: Counter[int] = Counter()
        """Of these, read from the leader's files."""
        self.missed_places = 0
        """Records that were not where the leader promised, or not in memory: they come as bytes."""

    def sent(self, node: int, nbytes: int) -> None:
        """An answer to a follower."""
        self.bytes_out[node] += nbytes

    def received(self, node: int, nbytes: int, from_files: int = 0) -> None:
        """An answer of a leader, of which so much was read from its files."""
        self.bytes_in[node] += nbytes
        if from_files:
            self.file_bytes_in[node] += from_files
