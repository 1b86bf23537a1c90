"""The errors of everything but the codec and storage.

The base class says who can act on an error: `UsageError` the operator; `InvalidRequestError` the
caller, by another request; `RetriableError` nobody, but the same request may succeed later. Each
edge translates errors by one table. The codec has its own errors in `highwater.kafka.errors`,
storage in `partition.storage.errors`.
"""

from typing import ClassVar, Final

EXIT_OK: Final = 0
"""Process exit: stopped cleanly, or the command succeeded."""

EXIT_FAILED: Final = 1
"""Process exit: a service failed, or could not be stopped within its deadline."""

EXIT_USAGE: Final = 2
"""Process exit: the operator must change something (`UsageError`)."""


class HighwaterError(Exception):
    """The root; raise one of the leaves."""

    reason: ClassVar[str] = "INTERNAL"
    """Constant, upper-case; travels as ErrorInfo.reason and labels metrics."""


class UsageError(HighwaterError):
    """The operator's mistake, told in one line; the process ends with exit code 2."""

    reason = "USAGE"


class ConfigError(UsageError):
    """A setting is missing, unknown, of the wrong type or at odds with another one."""

    reason = "CONFIG"


class PortInUseError(UsageError):
    """Another process listens on the address already."""

    reason = "PORT_IN_USE"

    def __init__(self, address: str) -> None:
        """Keep the address, host:port."""
        super().__init__(f"address {address} is already in use by another process")
        self.address = address


class BindError(UsageError):
    """The address cannot be listened on: no such host, or no permission."""

    reason = "BIND"

    def __init__(self, address: str, cause: str) -> None:
        """Keep the address, host:port, and what the system said."""
        super().__init__(f"cannot listen on {address}: {cause}")
        self.address = address


class UnwritableDirectoryError(UsageError):
    """A directory given in the settings cannot be created or written."""

    reason = "UNWRITABLE_DIRECTORY"

    def __init__(self, directory: str, cause: str) -> None:
        """Keep the directory and what the system said."""
        super().__init__(f"cannot write to directory {directory}: {cause}")
        self.directory = directory


class InvalidRequestError(HighwaterError):
    """The request contradicts itself or its API; sending it again cannot help."""

    reason = "INVALID_REQUEST"


class StaleNodeEpochError(HighwaterError):
    """The node was registered again since; this incarnation of it is over (KIP-631)."""

    reason = "STALE_NODE_EPOCH"


class RetriableError(HighwaterError):
    """The same request may succeed later or elsewhere."""

    reason = "RETRIABLE"


class NotControllerError(RetriableError):
    """This controller is a standby, or lost its election meanwhile."""

    reason = "NOT_CONTROLLER"


class UnreachableError(RetriableError):
    """A peer does not answer within the deadline."""

    reason = "UNREACHABLE"


class LimitExceededError(RetriableError):
    """A queue, a buffer or a budget of ours is full; back off."""

    reason = "LIMIT_EXCEEDED"
