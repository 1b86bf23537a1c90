"""The interfaces that a session uses: the handler of frames, and the socket."""

from typing import Protocol, TypeVar

from highwater.gateway.core.reply import Part

SessionT_contra = TypeVar("SessionT_contra", contravariant=True)
"""The session itself, which imports this module."""


class RequestHandler(Protocol[SessionT_contra]):
    """Handles a session's whole frames (without the size prefix)."""

    def produce(self, session: SessionT_contra, frame: bytearray) -> None:
        """A Produce request."""
        ...

    def fetch(self, session: SessionT_contra, frame: bytearray) -> None:
        """A Fetch request."""
        ...

    def other(self, session: SessionT_contra, frame: bytearray) -> None:
        """Any other request; it is alone on its connection until it is answered."""
        ...

    def reply_failed(self, session: SessionT_contra, error: Exception) -> None:
        """A bug while making a reply: logs it and closes the connection."""
        ...


class Wire(Protocol):
    """The socket side of a session."""

    def send(self, parts: list[Part]) -> None:
        """Queues parts behind earlier ones."""
        ...

    def set_reading(self, reading: bool) -> None:
        """Stops or resumes reading."""
        ...

    def close(self, reason: str) -> None:
        """Closes the connection; `reason` is for the log."""
        ...

    def close_when_silent(self) -> None:
        """From now on, closes the connection soon after its client cannot be reached any more."""
        ...

    def unmute_after(self, ms: int) -> None:
        """Calls the session's `unmute` in `ms` milliseconds, or later if told so before."""
        ...

    def unmute_now(self) -> None:
        """Calls the session's `unmute` if it was to be called later."""
        ...
