"""The error of calls whose caller awaits them, and of handlers that refuse one."""

from highwater.rpc.metadata import Metadata
from highwater.rpc.status import Status, StatusCode


class RpcError(Exception):
    """A call ended with another status than OK. A unary handler raises it to say which."""

    def __init__(self, code: StatusCode, details: str = "", metadata: Metadata = ()) -> None:
        """Keep the status; `metadata` is that of the trailers."""
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details
        self.metadata = metadata

    @classmethod
    def of(cls, status: Status) -> "RpcError":
        """The error of a status."""
        return cls(status.code, status.details, status.metadata)
