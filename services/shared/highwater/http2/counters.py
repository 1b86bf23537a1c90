"""What one connection counts, for metrics."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class ConnectionCounters:
    """Totals since the connection began; a sum over connections has the same shape."""

    bytes_received: int = 0
    bytes_sent: int = 0
    """Handed to the socket."""
    streams_opened: int = 0
    """By either end."""
    resets_received: int = 0
    resets_sent: int = 0
    goaways_received: int = 0
    goaways_sent: int = 0
    stalls: int = 0
    """Times that a stream had more to send than the windows allowed."""
    given_up: int = 0
    """1 if we ended the connection because it kept too much memory here."""

    def add(self, other: "ConnectionCounters") -> None:
        """Adds the totals of another one."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
